"""Twenty questions with the schema that each answer has to follow."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCHEMAS: Final = Path(__file__).parents[1] / "tests" / "schemas"

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 40}
_COLOURS: Final = ["red", "orange", "yellow", "green", "blue", "purple", "black", "white"]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked.

    Args:
        name: Of the schema.
        text: What the user says.
        schema: The document.
    """

    name: str
    text: str
    schema: Any


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _list(items: Any, least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


_BOOK: Final = _object(
    {"title": _TEXT, "pages": {"type": "integer", "minimum": 1, "maximum": 2000}}
)

_OWN: Final = {
    "colour": ("What colour is the sky on a clear day?", {"enum": _COLOURS}),
    "colours": (
        "Name three different colours.",
        {**_list({"enum": _COLOURS}, 3, 3), "uniqueItems": True},
    ),
    "numbers": (
        "List the first six even numbers.",
        _list({"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 2}, 1, 6),
    ),
    "person": (
        "Describe Albert Einstein.",
        _object(
            {
                "name": _TEXT,
                "born": {"type": "string", "format": "date"},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "is_alive": {"type": "boolean"},
                "profession": _TEXT,
            },
            optional=("profession",),
        ),
    ),
    "order": (
        "I want two pizzas for 9.50 each and a lemonade for 3.",
        _object(
            {
                "items": _list(
                    _object(
                        {
                            "article": _TEXT,
                            "quantity": {"type": "integer", "minimum": 1, "maximum": 20},
                            "price": {"type": "number", "minimum": 0, "multipleOf": 0.01},
                        }
                    ),
                    1,
                    3,
                ),
                "note": {"type": ["string", "null"], "maxLength": 60},
            }
        ),
    ),
    "meeting": (
        "Plan a meeting about the budget on the third of May 2024, nine in the morning.",
        _object(
            {
                "subject": _TEXT,
                "start": {"type": "string", "format": "date-time"},
                "duration": {"type": "string", "format": "duration"},
                "day": {"enum": _DAYS},
            }
        ),
    ),
    "verdict": (
        "Is Paris the capital of France? Give your confidence, too.",
        _object(
            {
                "answer": {"enum": ["yes", "no", "unknown"]},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            }
        ),
    ),
    "pet": (
        "Tell me of a pet: a cat with its name, or a fish with its colour.",
        {
            "oneOf": [
                _object({"kind": {"const": "cat"}, "name": _TEXT}),
                _object({"kind": {"const": "fish"}, "colour": {"enum": _COLOURS}}),
            ]
        },
    ),
    "library": (
        "Describe a small library with its shelves and books.",
        _object(
            {
                "city": _TEXT,
                "shelves": _list(
                    _object(
                        {
                            "topic": _TEXT,
                            "books": _list(
                                _object(
                                    {
                                        "title": _TEXT,
                                        "pages": {"type": "integer", "minimum": 1, "maximum": 2000},
                                    }
                                ),
                                1,
                                2,
                            ),
                        }
                    ),
                    1,
                    2,
                ),
            }
        ),
    ),
    "contact": (
        "Give me an e-mail address and a phone number of a shop.",
        _object(
            {
                "email": {"type": "string", "format": "email"},
                "phone": {"type": "string", "pattern": "^\\+[0-9]{1,3} [0-9]{4,10}$"},
                "opens": {"type": "string", "format": "time"},
            }
        ),
    ),
}

_FROM_FILES: Final = {
    "pydantic_sentiment": "Say whether this is positive, and why: The food was wonderful.",
    "pydantic_person": "Invent a person who lives in Berlin.",
    "pydantic_recipe": "How do I make pancakes?",
    "pydantic_score": "How good is the film Titanic?",
    "pydantic_order": "Invent an order of two articles.",
    "openai_weather": "What will the weather be in Rome for the next three days?",
    "openai_calendar_event": "Alice and Bob go to a science fair on Friday.",
    "openai_linked_list": "Give me a linked list of one, two and three.",
    "zod_record": "Give the scores of Anna and Tom.",
    "zod_shapes": "Draw a circle and a rectangle.",
}


def questions() -> list[Question]:
    """Return the questions, ten schemas of our own and ten of tests/schemas."""
    own = [Question(name=name, text=text, schema=schema) for name, (text, schema) in _OWN.items()]
    return own + [
        Question(name=name, text=text, schema=json.loads((SCHEMAS / f"{name}.json").read_bytes()))
        for name, text in _FROM_FILES.items()
    ]
