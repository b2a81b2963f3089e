"""The words of the template sentences: adjectives with and without sentiment, nouns, clauses.

Every adjective fits every noun, so that neither the noun nor the clause says anything about the
label. `{}` in a clause is a noun phrase, an adjective with its noun.
"""

from __future__ import annotations

POSITIVE = (
    "nice", "cute", "lovely", "wonderful", "beautiful", "pleasant", "delightful", "charming",
    "excellent", "splendid", "great", "amazing", "superb", "fantastic", "perfect", "brilliant",
    "gorgeous", "adorable", "magnificent", "impressive", "elegant", "terrific", "good", "stunning",
)  # fmt: skip
NEGATIVE = (
    "ugly", "awful", "horrible", "terrible", "nasty", "bad", "dreadful", "disgusting",
    "miserable", "unpleasant", "hideous", "poor", "rotten", "vile", "pathetic", "grim",
    "dull", "annoying", "filthy", "foul", "boring", "sinister", "inferior", "worthless",
)  # fmt: skip
NEUTRAL = (
    "wooden", "northern", "square", "grey", "yellow", "local", "second", "narrow",
    "wide", "round", "dutch", "annual", "green", "blue", "metal", "southern",
    "inner", "outer", "upper", "lower", "western", "eastern", "public", "rural",
)  # fmt: skip
NOUNS = (
    "house", "garden", "picture", "letter", "street", "room", "table", "story",
    "chair", "lamp", "bridge", "market", "kitchen", "office", "station", "window",
    "hotel", "school", "carpet", "poster", "building", "meal", "coat", "basket",
)  # fmt: skip
CLAUSES = (
    "we passed the {} on the way",
    "they spoke about the {} in the evening",
    "she saw the {} from the train",
    "he pointed at the {} near the river",
    "someone mentioned the {} after lunch",
    "the {} belonged to a neighbour",
    "the {} appeared in a film",
    "my cousin remembered the {} from last year",
    "the driver stopped beside the {} for a minute",
    "an article described the {} on two pages",
    "the {} was shown on the map",
    "a visitor asked about the {} at noon",
)
CONNECTORS = ("and", "while", "then", "before")
