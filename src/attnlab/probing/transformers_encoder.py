"""Encoders of other families (RoBERTa, DistilBERT, ELECTRA, ...) by the library `transformers`.

Only local files are read, no code of the model's directory is run, and weights that are stored as
pickles are refused by `transformers` unless they hold tensors alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._core.errors import InvalidArgument, check_integer
from .bert import Reading, name_of
from .tokens import Tokens, check_padding, padded


class TransformersEncoder:
    """An encoder from a Hugging Face directory, run by PyTorch in float32 on the CPU.

    The same fields and the same `read` as `BertEncoder`. Raises `InvalidArgument` when the libraries
    are missing or the directory holds no encoder that they can read.
    """

    def __init__(self, path: str | Path):
        try:
            import torch
            import transformers
        except ImportError:
            allowed = 'a bert, or read with transformers and torch: pip install "attnlab[bert]"'
            raise InvalidArgument("model_type", str(path), allowed) from None
        self._torch = torch
        self.tokens = Tokens(path)
        try:
            self._model, told = transformers.AutoModel.from_pretrained(
                str(path),
                local_files_only=True,
                trust_remote_code=False,
                attn_implementation="eager",
                dtype=torch.float32,
                output_loading_info=True,
            )
            self._model.eval()
        except Exception as error:  # the library raises many kinds for files that it cannot read
            allowed = f"an encoder that transformers can read ({error})"
            raise InvalidArgument("model", str(path), allowed) from None
        # these would be random numbers; the pooler, which many files lack, is not looked at
        missing = sorted(name for name in told["missing_keys"] if "pooler" not in name)
        if missing:
            allowed = f"one with all weights; {missing[0]} is missing"
            raise InvalidArgument("model", str(path), allowed)
        config = self._model.config
        needed = ("num_hidden_layers", "num_attention_heads", "hidden_size")
        for name in (*needed, "max_position_embeddings"):
            if not isinstance(value := getattr(config, name, None), int) or value < 1:
                raise InvalidArgument("model", str(path), f"one whose config.json tells {name}")
        self.tokens.check_known(self._model.get_input_embeddings().num_embeddings)
        allowed = "an encoder, whose tokens see all others"
        if getattr(config, "is_encoder_decoder", False):
            raise InvalidArgument("model", str(path), allowed)
        self.name = name_of(path, self._model.config.to_dict())
        self.n_layers = int(config.num_hidden_layers)
        self.n_heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        offset = 2 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
        self.max_length = int(config.max_position_embeddings) - offset
        (some,) = self.tokens.encode(["a b"], max_length=self.max_length)
        seen = self.read(*padded([some], len(some.ids)), np.zeros((1, 1, len(some.ids))))
        if not np.isfinite(seen.log_attention).all():  # the first token sees itself alone
            raise InvalidArgument("model", str(path), allowed)

    def untrained(self, seed: int) -> TransformersEncoder:
        """The same network as it was before any training, as `transformers` initialises it."""
        import copy

        import transformers

        other = copy.copy(self)
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(check_integer("seed", seed, minimum=0, maximum=2**63 - 1))
            fresh = transformers.AutoModel.from_config(
                self._model.config, attn_implementation="eager"
            )
        other._model = fresh.to(self._torch.float32).eval()
        other.name = f"{self.name}, untrained"
        return other

    def read(
        self,
        ids: Int[np.ndarray, "batch tokens"],
        mask: Bool[np.ndarray, "batch tokens"],
        select: Float[np.ndarray, "batch positions tokens"],
    ) -> Reading:
        """Hidden states of every layer at chosen places, and the attention of the first token.

        Raises `InvalidArgument` for padding that is not at the end.
        """
        check_padding(mask)
        torch = self._torch
        pad = getattr(self._model.config, "pad_token_id", None) or 0
        inputs = np.where(mask, ids, pad).astype(np.int64)
        with torch.no_grad():
            out = self._model(
                input_ids=torch.from_numpy(inputs),
                attention_mask=torch.from_numpy(mask.astype(np.int64)),
                output_hidden_states=True,
                output_attentions=True,
            )
        hidden = np.stack([state.numpy() for state in out.hidden_states])
        states = np.einsum("bpt,lbtd->lbpd", select.astype(np.float32), hidden)
        first: Any = np.stack([part[:, :, 0, :].numpy() for part in out.attentions])
        with np.errstate(divide="ignore"):
            log_attention = np.log(np.where(mask[None, :, None, :], first, 0.0))
        return Reading(states, log_attention)
