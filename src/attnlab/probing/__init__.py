"""Probing a pretrained encoder: sentences that one word decides, embeddings, linear probes."""

from .attention import attention_to_words as attention_to_words
from .embeddings import PLACES as PLACES
from .embeddings import embed as embed
from .encoders import HOW_TO_GET as HOW_TO_GET
from .encoders import Encoder as Encoder
from .encoders import bundled_model as bundled_model
from .encoders import load_encoder as load_encoder
from .encoders import missing_parts as missing_parts
from .probe import probe as probe
from .sentences import Sentences as Sentences
from .sentences import sentiment_sentences as sentiment_sentences
