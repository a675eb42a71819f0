"""Writes tests/data/ngrams.json: texts as ids, and the cross-entropy of interpolated modified Kneser-Ney models on their ends.

The script follows the definitions in src/data/baselines.h with dictionaries and sets, and needs only the standard
library. The texts are the first bytes of LICENSE, its words, and one that is too small for discounts of its own.
"""
import collections
import math

from goldens.files import ROOT, TESTS, write_compact


def counts_of(ids, k, highest):
    """c of every k-gram."""
    if highest:
        return collections.Counter(tuple(ids[i - k + 1:i + 1]) for i in range(k - 1, len(ids)))
    longer = {tuple(ids[i - k:i + 1]) for i in range(k, len(ids))}
    return collections.Counter(gram[1:] for gram in longer)


def discounts_of(counts):
    n = collections.Counter(counts.values())
    if not (n[1] and n[2] and n[3]):
        return [0, 0.5, 1, 1.5]
    y = n[1] / (n[1] + 2 * n[2])
    d = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
    return d if min(d[1:]) > 0 else [0, 0.5, 1, 1.5]


def cross_entropy(ids, held_out, vocab_size, order):
    models = []
    for k in range(1, order + 1):
        counts = counts_of(ids, k, k == order)
        followers = collections.defaultdict(list)
        for gram, c in counts.items():
            followers[gram[:-1]].append(c)
        models.append((counts, discounts_of(counts), followers))

    def probability(gram):
        if not gram:
            return 1 / vocab_size
        counts, d, followers = models[len(gram) - 1]
        lower = probability(gram[1:])
        after = followers.get(gram[:-1])
        if not after:
            return lower
        c, total = counts.get(gram, 0), sum(after)
        return (c - d[min(c, 3)]) / total + sum(d[min(a, 3)] for a in after) / total * lower

    grams = [tuple(held_out[max(0, j - order + 1):j + 1]) for j in range(1, len(held_out))]
    return -sum(math.log(probability(gram)) for gram in grams) / len(grams)


def main():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    words = text.split()
    number = {word: i for i, word in enumerate(dict.fromkeys(words))}
    cases = {"bytes": (list(text.encode()[:1000]), 256), "words": ([number[w] for w in words], len(number) + 3),
             "tiny": ([0, 1, 2, 0, 1, 3, 0, 1, 2, 2], 5)}
    out = {}
    for name, (ids, vocab_size) in cases.items():
        cut = len(ids) * 4 // 5
        out[name] = {"vocab_size": vocab_size, "train": ids[:cut], "held_out": ids[cut:],
                     "cross_entropy": [cross_entropy(ids[:cut], ids[cut:], vocab_size, k) for k in range(1, 6)]}
    write_compact(TESTS / "data/ngrams.json", out)
