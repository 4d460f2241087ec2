"""Sentences with a sentiment, made of words that ship with lorabench, and a tokenizer for models that have none.

Not language, but learnable: most sentences follow from one word, some from a word and a "not" before it.
"""

import random
import re
import zlib

TRAIN_CNT, VALIDATION_CNT = 512, 128
NEGATIVE, POSITIVE = 0, 1
_NEGATED = 0.05  # share of sentences in which a "not" turns the sentiment
_ADJECTIVES = (
    ("awful", "bad", "boring", "clumsy", "dull", "forced", "shallow", "tedious"),
    ("beautiful", "brilliant", "charming", "clever", "funny", "good", "moving", "witty"),
)
_NOUNS = (
    "acting", "cast", "comedy", "director", "drama", "ending", "film", "movie", "music", "performance", "picture",
    "plot", "scene", "script", "story", "thriller",
)  # fmt: skip
_ADVERBS = ("always", "deeply", "often", "quite", "really", "so", "truly", "very")
_OTHERS = (
    "a", "and", "at", "every", "feels", "in", "is", "it", "its", "not", "of", "that", "the", "this", "times", "turn",
    "with", ",", ".",
)  # fmt: skip
_FORMS = (
    "the {noun} is {adverb} {adjective} .",
    "{adverb} {adjective} .",
    "a {adjective} {noun} , {adjective} and {adverb} {adjective}",
    "this {noun} feels {adjective} at times .",
    "it is a {adverb} {adjective} {noun} with a {adjective} {noun} .",
    "{adjective} in every {noun} and {adjective} in every turn",
    "its {noun} is that of a {adjective} {noun}",
)
_NEGATIONS = (
    "the {noun} is not {adjective} .",
    "it is not a {adverb} {adjective} {noun} .",
    "not {adverb} {adjective}",
)

_PADDING, _FIRST, _LAST = range(3)  # a model reads the class off the first place or off the last one
_WORDS = sorted({*_ADJECTIVES[0], *_ADJECTIVES[1], *_NOUNS, *_ADVERBS, *_OTHERS})
_KNOWN = {word: number for number, word in enumerate(_WORDS, 3)}
_PIECES = re.compile(r"\w+|[^\w\s]")


def sentences(seed: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Sentences to train on and to validate with, no sentence in both; the same for the same seed."""
    draw = random.Random(seed)
    found: dict[str, int] = {}
    while len(found) < TRAIN_CNT + VALIDATION_CNT:
        sentiment = len(found) % 2
        sentence = _sentence(draw, sentiment)
        found.setdefault(sentence, sentiment)
    listed = list(found.items())
    return listed[:TRAIN_CNT], listed[TRAIN_CNT:]


def _sentence(draw: random.Random, sentiment: int) -> str:
    is_negated = draw.random() < _NEGATED
    form = draw.choice(_NEGATIONS if is_negated else _FORMS)
    kinds = {"noun": _NOUNS, "adverb": _ADVERBS, "adjective": _ADJECTIVES[1 - sentiment if is_negated else sentiment]}
    return re.sub(r"{(\w+)}", lambda found: draw.choice(kinds[found[1]]), form)


def encode(text: str, vocabulary: int) -> list[int]:
    """The numbers of a sentence's words; words that do not ship with lorabench share what is left of the vocabulary."""
    first = 3 + len(_KNOWN)
    left = vocabulary - first
    if left < 1:
        raise ValueError(f"a vocabulary of {vocabulary} is too small; {first + 1} words are needed")
    words = _PIECES.findall(text.lower())
    return [_FIRST, *(_KNOWN.get(w) or first + zlib.crc32(w.encode()) % left for w in words), _LAST]
