"""Texts on which int4 weights are rounded, beside those of all formats.

Four bits leave an error that is worth undoing where inputs really go, and a matrix has more inputs
than the short texts have tokens. A change of these texts is a change of every int4 artifact.
"""

from typing import Final

INT4_CALIBRATION_TEXTS: Final = (
    "CHAPTER II.\n\nOf what the Miller found in the Attic\n\nThe miller had lived so long with "
    "the noise of the wheel that silence woke him. He sat up in bed and listened. Nothing "
    "turned; nothing dripped; even the mice, which on other nights held races behind the "
    "wainscot, were still. `Somebody,' said the miller to himself, `has stopped my river,' and "
    "being a man who disliked to be robbed before breakfast, he put on his boots and took the "
    "lantern.\n\n`Where are you going?' asked his wife, without opening her eyes.\n\n`To look "
    "for the water,' he said.\n\n`Then look upstairs,' she murmured, `for I heard it go that way "
    "an hour ago,' and she was asleep again before he could ask her what she meant. It seemed a "
    "foolish thing to do, but he was a polite husband, and so he climbed the ladder, lifted the "
    "trap-door with his head, and held up the light. There, curled between the apples and the "
    "broken chairs, lay the whole river, breathing very quietly, with a duck on it.\n",
    "`I never said that it was easy,' remarked the Owl; `I only said that it was simple.'\n\n"
    "`But what is the difference?' cried Tom, who had lost count of the stairs for the third "
    "time. `If a thing is simple, anybody can do it, and if anybody can do it, it must be "
    "easy!'\n\n`Falling is simple,' said the Owl, looking down at him gravely over its "
    "spectacles. `You would find it quite hard to do twice.' Poor Tom did not know what to "
    "answer to this, so he took off his cap, turned it round once or twice, and began again from "
    "the very beginning: `One, two, three--and I DO wish you would not stare so!'\n",
    '{\n    "$schema": "https://example.org/schemas/order/v2",\n    "title": "Order",\n    '
    '"type": "object",\n    "required": ["id", "lines"],\n    "properties": {\n        "id": '
    '{"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},\n        "customer": {"$ref": '
    '"#/$defs/person"},\n        "lines": {\n            "type": "array",\n            '
    '"minItems": 1,\n            "items": {\n                "type": "object",\n                '
    '"properties": {\n                    "sku": {"type": "string"},\n                    '
    '"quantity": {"type": "integer", "minimum": 1},\n                    "unit_price": {"type": '
    '"number"}\n                }\n            }\n        }\n    },\n    "additionalProperties": '
    "false\n}\n",
    '[\n    {\n        "description": "a list of readings with one that is missing",\n        '
    '"data": [\n            {"station": "north", "time": "2021-03-04T05:06:07Z", "value": '
    '-1.5},\n            {"station": "south", "time": "2021-03-04T05:16:07Z", "value": null},\n'
    '            {"station": "harbour", "time": "2021-03-04T05:26:07Z", "value": 12}\n        '
    '],\n        "valid": true\n    },\n    {\n        "description": "an empty list is '
    'allowed",\n        "data": [],\n        "valid": true\n    },\n    {\n        '
    '"description": "a number is not a list",\n        "data": 42,\n        "valid": false\n    '
    "}\n]\n",
    "7. Term and Termination. This Agreement begins on the date of the last signature and "
    "continues until either party ends it by written notice of at least thirty (30) days. If a "
    "party breaches any material obligation under this Agreement and does not cure the breach "
    "within ten (10) days after it was notified, the other party may terminate immediately. "
    '"Confidential Information" means any information, in whatever form, that the disclosing '
    "party marks as confidential or that a reasonable person would understand to be so. Sections "
    "4, 8 and 11 survive termination. THE GOODS ARE SUPPLIED WITHOUT ANY CONDITION THAT IS NOT "
    "STATED HERE, TO THE EXTENT THAT THE LAW PERMITS, and neither party is liable for delays "
    "that are caused by events beyond its control, provided that it takes all reasonable steps "
    "to limit their effects.\n",
    "import csv\nfrom collections import defaultdict\nfrom pathlib import Path\n\n\nclass "
    'Ledger:\n    """Sums of what every account was charged, read from a file of comma-separated '
    'values."""\n\n    def __init__(self, path: Path) -> None:\n        self._totals = '
    'defaultdict(int)\n        with path.open(newline="", encoding="utf-8") as file:\n'
    '            for row in csv.DictReader(file):\n                self._totals[row["account"]] '
    '+= int(row["cents"])\n\n    def largest(self, count: int = 3) -> list[tuple[str, int]]:\n'
    "        ranked = sorted(self._totals.items(), key=lambda item: -item[1])\n        return "
    'ranked[:count]\n\n\nif __name__ == "__main__":\n    for name, cents in '
    'Ledger(Path("2020.csv")).largest():\n        print(f"{name:<20} {cents / 100:10.2f}")\n',
    "#include <stdio.h>\n#include <string.h>\n\n/* Reverses a string in place. */\nstatic void "
    "reverse(char *text)\n{\n    size_t first = 0, last = strlen(text);\n    while (first + 1 < "
    "last) {\n        char kept = text[first];\n        text[first++] = text[--last];\n        "
    "text[last] = kept;\n    }\n}\n\nint main(void)\n{\n    char line[256];\n    while "
    '(fgets(line, sizeof line, stdin) != NULL) {\n        line[strcspn(line, "\\n")] = 0;\n'
    "        reverse(line);\n        puts(line);\n    }\n    return 0;\n}\n",
    "function debounce(callback, delay = 250) {\n  let timer = null;\n  return (...args) => {\n"
    "    clearTimeout(timer);\n    timer = setTimeout(() => callback(...args), delay);\n  };\n"
    "}\n\ndocument.querySelector('#search').addEventListener('input', debounce(async (event) => "
    "{\n  const answer = await fetch(`/api/items?q=${encodeURIComponent(event.target.value)}`);\n"
    "  if (!answer.ok) throw new Error(`status ${answer.status}`);\n  render(await "
    "answer.json());\n}));\n",
    "SELECT city, COUNT(*) AS visits, AVG(duration_s) AS mean_s\nFROM visits\nJOIN places ON "
    "places.id = visits.place_id\nWHERE started_at >= '2019-06-01' AND NOT is_test\nGROUP BY "
    "city\nHAVING COUNT(*) > 10\nORDER BY visits DESC;\n\n$ ls -l /var/log | head -n 3\n"
    "-rw-r--r-- 1 root adm 48213 Jan  9 06:25 syslog\n-rw-r----- 1 root adm  1207 Jan  8 23:59 "
    "auth.log\n$ grep -c 'timeout' syslog\n17\n",
    "Photosynthesis takes place in the chloroplasts of plant cells. Chlorophyll absorbs mostly "
    "red and blue light, and the energy splits water into oxygen, protons and electrons. The "
    "oxygen leaves the leaf; the electrons travel along a chain of proteins in the membrane and "
    "drive the production of ATP. In a second stage, known as the Calvin cycle, carbon dioxide "
    "from the air is built into sugars. Because the enzyme that binds carbon dioxide also binds "
    "oxygen, some of the energy is lost, particularly on hot and dry days. Maize and sugar cane "
    "avoid much of this loss by collecting carbon dioxide in one kind of cell and using it in "
    "another.\n\n== History ==\nIn 1779, Jan Ingenhousz showed that plants give off oxygen only "
    "in the light, and only from their green parts. A quarter of a century later, "
    "Nicolas-Théodore de Saussure measured that water contributes to the growing mass of the "
    "plant as well.\n",
    "**Question:** A tank holds 240 litres and is filled by two pipes. The first pipe alone "
    "needs 6 hours, the second 4 hours. How long do both need together?\n\n**Answer:** Let us "
    "think step by step.\n\n1. The first pipe fills 240 / 6 = 40 litres per hour.\n2. The second "
    "fills 240 / 4 = 60 litres per hour.\n3. Together they fill 40 + 60 = 100 litres per hour.\n"
    "4. 240 / 100 = 2.4 hours, which is 2 hours and 24 minutes.\n\nTherefore, both pipes "
    "together need **2 hours and 24 minutes**. As a check: after 2.4 hours the first pipe has "
    "given 96 litres and the second 144, and 96 + 144 = 240.\n",
    "<|im_start|>user\nCan you suggest a quick dinner with rice and two eggs?<|im_end|>\n"
    "<|im_start|>assistant\nOf course! Here is a simple egg fried rice for one person:\n\n- Heat "
    "a tablespoon of oil in a pan over medium heat.\n- Beat the eggs with a pinch of salt, pour "
    "them in, and stir until they are just set.\n- Add a bowl of cooked, cold rice, a handful of "
    "frozen peas and a chopped spring onion.\n- Fry everything for three to four minutes, then "
    "season it with soy sauce and a little pepper.\n\nIf you like it spicy, add some chili at "
    "the end. Would you like a version without oil?<|im_end|>\n<|im_start|>user\nNo, that's "
    "perfect. Thanks!<|im_end|>\n",
    "Subject: Re: Meeting on Thursday\n\nHi Priya,\n\nThanks for sending the draft so quickly. "
    "I've read it twice and have only three small remarks: (1) the figures on page 4 don't add "
    "up to 100%, (2) we still call the product by its old name in the summary, and (3) I'd move "
    "the paragraph about costs before the schedule. None of this is urgent, but it would be "
    "great to have a clean version by Wednesday evening, so that Mr. Okafor can look at it "
    "before we meet. Shall we say 10:30 instead of 9:00? My train arrives at 9:52.\n\nBest "
    "regards,\nDaniel\n",
    "LONDON (Tuesday) - Shares in small shipping companies fell by as much as 7.5 percent after "
    "the port authority announced higher fees from next year. Analysts had expected an increase "
    "of around 2 percent. “We understand the reasons, but the timing could hardly be worse,” "
    "said the head of one ferry operator, who asked not to be named. A spokeswoman for the "
    "authority said that the fees had not changed since 2012, and that the money would pay for "
    "new breakwaters. The union, which represents about 3,400 dock workers, called for talks "
    "before the end of the month.\n",
    "When I have walked the night from end to end\nAnd found no lamp in all the sleeping town,\n"
    "I hear the river, like an ancient friend,\nGo talking to itself and wandering down.\n\n"
    "        O little boat, why do you wait\n        Beside the broken stair?\n        The tide "
    "has turned, the hour is late,\n        And nobody is there.\n",
    "# Installation\n\nYou need version 3.8 or later. Run the following command:\n\n```sh\npip "
    "install --upgrade weatherbox\n```\n\nThen create a file named `config.yaml`:\n\n```yaml\n"
    "location: {lat: 47.37, lon: 8.54}\nunits: metric\ninterval: 15m\n```\n\n## Options\n\n| "
    "Option | Default | Meaning |\n|---|---|---|\n| `units` | `metric` | `metric` or `imperial` "
    "|\n| `interval` | `10m` | How often to ask for new data |\n\n> **Note:** Do not commit your "
    "API key. Use the environment variable `WEATHERBOX_KEY` instead.\n",
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n  <meta charset="utf-8">\n  <title>Opening '
    'hours</title>\n</head>\n<body>\n  <h1 class="big">Opening hours</h1>\n  <ul>\n    '
    "<li>Monday to Friday: 8 a.m. - 6 p.m.</li>\n    <li>Saturday: closed</li>\n  </ul>\n  "
    '<p>Call us at <a href="tel:+15550100">555-0100</a> &amp; leave a message.</p>\n</body>\n'
    "</html>\n",
    "Les enfants jouaient dans la cour pendant que leur grand-mère préparait la soupe. « Venez à "
    "table ! » cria-t-elle enfin. Die Straße war nass vom Regen, und niemand wusste, wann der "
    "nächste Bus kommen würde. El camino sube despacio entre los olivos y llega hasta una "
    "pequeña iglesia blanca. La luce della sera entrava dalla finestra aperta. Het schip voer "
    "langzaam de haven uit. Он открыл дверь и увидел снег.\n",
    "The patient, a 54-year-old teacher, reported chest pain that began two hours before "
    "admission. Blood pressure was 148/92 mmHg, heart rate 96 beats per minute, temperature 36.9 "
    "°C. There was no history of diabetes; his father had died of a stroke at the age of 61. "
    "Treatment with aspirin was started at once. Most people with these symptoms recover well if "
    "they are treated early, stop smoking and exercise regularly, although the risk of a second "
    "event remains higher than average for several years.\n",
    "Q: Who wrote the novel Frankenstein?\nA: Mary Shelley.\n\nQ: What is the capital of Kenya?\n"
    "A: Nairobi.\n\nQ: Which planet has the most moons?\nA: Saturn, with more than a hundred.\n\n"
    "Q: When did the Berlin Wall fall?\nA: On 9 November 1989.\n\nQ: How many strings does a "
    "violin have?\nA: Four: G, D, A and E.\n\nQ: What is 17 times 6?\nA: 102.\n",
)
"""Narration, talk, data, law, programs, science, sums, letters, news, verse, markup, tongues."""
