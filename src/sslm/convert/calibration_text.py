"""Texts on which fraction bits are chosen; a change of them is a change of every artifact."""

from typing import Final

CALIBRATION_TEXTS: Final = (
    "The harbour was quiet before sunrise. Two fishermen mended a net while the lighthouse keeper, "
    "who had not slept, counted the boats: seventeen out, sixteen home. “Nobody drowns on a "
    "night without wind,” said the older man, and went on knotting.",
    "def merge(left, right):\n    merged = []\n    while left and right:\n"
    "        source = left if left[0] <= right[0] else right\n"
    "        merged.append(source.pop(0))\n    return merged + left + right\n\n"
    "assert merge([1, 4, 9], [2, 3]) == [1, 2, 3, 4, 9]\n",
    "In 1969 the total was 3,141.59 units (up 26.5% from 1968). Speed of light: 299792458 m/s. "
    "H2O boils at 100 °C; E = mc². See table 7, rows 12-19, and https://example.org/a?b=c&d=42.",
    "Der Zug hält nur bei Bedarf. Où est la bibliothèque ? ¿Cuánto cuesta? Привет, мир! "
    "今日は良い天気ですね。 你好,世界。 مرحبا بالعالم 🙂\n\n\n\n\t\tEnd of list.",
    "The old road climbed slowly through the pines,\r\nand nobody spoke.  `Are we lost?' said "
    "the girl at last.\r\n\r\n  `We are not lost,' her uncle replied, `but the map\r\nis.'  He "
    "laughed, sat down on a stone, and unfolded it once\r\nmore; then he turned it upside down."
    "\r\n\r\n  She looked at the sky, which was growing dark, and thought of supper.\r\n",
)
"""Prose, a program, numbers, other scripts, old line ends: each is a sequence of its own."""

GOLDEN_PROMPTS: Final = ("The capital of France is", "Once upon a time, there was a")
"""Continued by golden runs."""

GOLDEN_CHAT: Final = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\nWhat is the largest planet?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
"""A conversation, of which only the prefill is recorded, for models that chat as ChatML has it."""

GOLDEN_CHAT_CONTROLS: Final = frozenset({"<|im_start|>", "<|im_end|>"})
"""The control tokens in it."""

TOKEN_PAIR_TEXTS: Final = (
    "Hello, world!",
    "  two  spaces\tand\ttabs\n\nnew lines\r\n",
    "It's 3.14159 or 1,000,000; don't you think? we'll see",
    "naïve café — Zürich, Łódź, Ελλάδα, Москва, 東京, 서울, ไทย, 👩‍👩‍👧 ½",
    "<|im_start|>system <s> </s> [INST] <|endoftext|>",
)
"""Texts whose ids are recorded, so that a changed tokenizer is noticed."""
