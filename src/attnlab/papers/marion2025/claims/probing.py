"""A pretrained encoder."""

from ....claims import Claim

CLAIMS = (
    Claim(
        id="bert-probing",
        paper="marion2025",
        title="[CLS] of a pretrained encoder carries one token's information",
        statement=(
            "In sentences with one sentiment adjective among neutral words, the embedding of [CLS] says nothing "
            "before the first layer; in the deep layers of a pretrained BERT a linear probe reads from it the sign of "
            "that one word, almost as well as from the word's own embedding."
        ),
        source="section 2: linear probing of BERT (and rebuttal, answer Q1 on the sentences)",
        explanation=(
            "This is the observation that single-location regression idealises: one token's information moves to "
            "another token. The check probes a BERT of 6 layers on adjectives that the probe has not seen, beside an "
            "untrained network and sentences in which that one word is exchanged."
        ),
        check="attnlab.papers.marion2025.linear_probing:bert_probing",
        expected="confirmed",
    ),
)
