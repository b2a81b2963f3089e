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
    Claim(
        id="open-heads",
        paper="marion2025",
        title="Open: do heads of a pretrained encoder attend as the theory has it?",
        statement=(
            "Does the mean weight that a head of a pretrained BERT gives, from [CLS], to the one informative word of a "
            "sentence follow from the mean and the spreads of its logits as for a single-location head; and does a "
            "head look at that word alone?"
        ),
        source="section 2: token-wise sparsity and the role of [CLS]",
        explanation=(
            "The theory takes one token to be picked out by one head. The check measures three numbers of each head's "
            "logits, computes the exact weight that a single-location head with these numbers has, and compares."
        ),
        check="attnlab.papers.marion2025.head_attention:open_heads",
        expected="confirmed",
    ),
)
