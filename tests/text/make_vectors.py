#!/usr/bin/env python3
"""Makes tests/data/text: small tokenizers and the ids that Hugging Face `tokenizers` gives for nasty texts.

    python3 -m venv V && V/bin/pip install tokenizers==0.23.3 && V/bin/python tests/text/make_vectors.py tests/data/text

scores.jsonl is a SentencePiece model as GGUF holds it (tokens, scores, types and no merges), with the ids of the
tokenizer.json that transformers' converter would make of it. trained.jsonl and cases.jsonl: a line is {"name", "tokenizer" (the text of a tokenizer.json), "vectors"}, a vector
{"text", "parse", "special", "ids", "decoded"}: `parse` says that special tokens in the text become ids, `special` that
BOS and EOS are added; `decoded` (where the ids make whole characters) is the text of the ids with special tokens kept.
Everything is seeded: a run writes the same bytes, but for training, which may break ties in another way.
"""
import json
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = sys.argv[1]
WORDS = """the of and to in a is that it was for on are as with his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people my made over
did down only way find use may water long little very after words called just where most know naïve café Straße ÆON
привет мир как дела 你好 世界 日本語 テスト 한국어 שלום العربية ไทย Ελλάδα don't we're I'll it's they'd I've I'm you're
DON'T WE'RE 123 4567 3.14159 1,000,000 foo_bar x=y+z; {"a":[1,2]} <html> https://example.org/a?b=c#d C++ f(x) 50% $9""".split()
NASTY = ["", " ", "  ", "\n", "\r\n", "\r\n\r\n", "\t", " \t \n ", "\u00a0", "\u3000", "\u200b", "\u200d", "\u180e", "\u2028",
         "\u0085", "e\u0301", "\u0301", "a\u0323\u0307", "\ufb01", "\u2460", "\u00b2", "\u00bd", "Ⅷ", "ſ", "'ſ", "K", "İ", "ß", "ẞ", "ǅ",
         "😀", "👩‍👩‍👧", "🇫🇷", "👍🏽", "\U0001f9ff", "\U00020000", "가", "\u1112\u1161\u11ab", "ﷺ", "\ufffd", "\ue000", "\u0001", "\u001b[0m", "\u007f",
         "'s", "'S", "''", "...", "!?", "--", "_", "▁", "▁▁", "a▁b", "Ġ", "Ċ", "<s>", "</s>", "<unk>", "<0x0A>", "<|a|>", "<|b|>",
         "<m>", "<|endoftext|>", "٣", "१२३", "１２", "0", "00", "000", "0000", "12345678", "a" * 40, " " * 17, "\n" * 9, "é" * 7, "ab" * 12]


def texts(seed, count, extra=()):
    r = random.Random(seed)
    out = [t for t in NASTY]
    pool = NASTY + list(extra) * 3
    while len(out) < count:
        parts = []
        for _ in range(r.randint(1, 9)):
            k = r.random()
            if k < .45:
                parts.append(r.choice(WORDS))
            elif k < .8:
                parts.append(r.choice(pool))
            elif k < .9:
                parts.append("".join(chr(r.choice([r.randint(1, 0x2ff), r.randint(0x300, 0xd7ff), r.randint(0xe000, 0x1ffff)]))
                                     for _ in range(r.randint(1, 4))))
            else:
                parts.append(r.choice([" ", "  ", "\n", "\t", "   "]))
            if r.random() < .5:
                parts.append(" ")
        text = "".join(parts)
        # the split patterns' engines know different versions of Unicode: keep to what both have
        if all(unicodedata.category(c) != "Cn" for c in text):
            out.append(text)
    return out


def corpus():
    r = random.Random(7)
    return [" ".join(r.choice(WORDS) for _ in range(40)) + r.choice(["\n", "  ", "\r\n", "!\n\n", "...", " 2024"]) for _ in range(300)]


def save(name, tok, count=250, extra=(), only=None, file=None, more=None):
    text = json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":"))
    tok = Tokenizer.from_str(text)
    r = random.Random(name)
    vectors = []
    for t in only if only is not None else texts(name, count, extra):
        parse, special = r.random() < .7, r.random() < .3
        tok.encode_special_tokens = not parse
        ids = tok.encode(t, add_special_tokens=special).ids
        line = {"text": t, "parse": parse, "special": special, "ids": ids}
        decoded = tok.decode(ids, skip_special_tokens=False)
        if "\ufffd" not in decoded and not name.startswith("added"):  # there it spells them as normalized
            line["decoded"] = decoded
        vectors.append(line)
    line = {"name": name, **(more or {"tokenizer": text}), "vectors": vectors}
    with open(f"{OUT}/{file or ('trained' if only is None else 'cases')}.jsonl", "a", encoding="utf-8") as f:
        f.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def bpe(specials=("<unk>",), **kw):
    return Tokenizer(models.BPE(**kw)), list(specials)


def train(tok, specials, vocab=700, alphabet=()):
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=vocab, special_tokens=specials, show_progress=False,
                                                          initial_alphabet=list(alphabet)))
    return tok


BYTES = pre_tokenizers.ByteLevel.alphabet()
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def special(content, **kw):
    return AddedToken(content, special=True, normalized=False, **kw)


def byte_level():
    tok, s = bpe(["<|endoftext|>", "<|a|>"])
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    save("gpt2", train(tok, s, alphabet=BYTES), extra=["<|endoftext|>", "<|a|>", " <|a|> "])

    tok, s = bpe(["<|endoftext|>"])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=True)])
    tok.decoder = decoders.ByteLevel()
    save("digits_prefix", train(tok, s, vocab=500), 150)  # no full alphabet: bytes without a token vanish

    tok, s = bpe(["<|begin|>", "<|end_of_text|>", "<|eot_id|>", "<|a|>"], ignore_merges=True)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    train(tok, s, alphabet=BYTES)
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                              processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B",
                                                                            special_tokens=[("<|begin|>", 0)])])
    save("llama3", tok, extra=["<|begin|>", "<|eot_id|>", "😀"])

    tok, s = bpe(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    train(tok, s, alphabet=BYTES)
    tok.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("é!", normalized=True)])
    save("qwen2", tok, extra=["<|im_start|>user\n", "<|im_end|>", "<tool>", "e\u0301!", "é!"])


def scores(text):
    """Scores as SentencePiece gives them: minus the order of making; merges as transformers' converter derives them."""
    vocab = text["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    score = [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]
    merges = []
    for t in tokens[259:]:
        merges += [(t[:i], t[i:], score[vocab[t]]) for i in range(1, len(t)) if t[:i] in vocab and t[i:] in vocab]
    merges.sort(key=lambda m: -m[2])
    text["model"]["merges"] = [m[:2] for m in merges]
    text["post_processor"] = None
    tok = Tokenizer.from_str(json.dumps(text))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    save("scores", tok, file="scores", extra=["<s>", "</s>", "<s> a", "x<s>y"], more={"tokens": tokens, "scores": score, "types": types})


def sentencepiece():
    s = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok, _ = bpe(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    train(tok, s, vocab=900)
    text = json.loads(tok.to_str())  # byte tokens are plain tokens in real files
    text["added_tokens"] = text["added_tokens"][:3]
    tok = Tokenizer.from_str(json.dumps(text))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    save("llama2", tok, extra=["<s>", "</s>", "<s> a", "x<s>y", "<unk>"])

    scores(json.loads(tok.to_str()))

    tok, _ = bpe(unk_token="<unk>", fuse_unk=True, byte_fallback=False)
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tok.decoder = decoders.Metaspace(prepend_scheme="first")
    train(tok, ["<unk>", "<s>", "</s>"], vocab=600)
    save("metaspace_first", tok, extra=["<s>", "x<s> y", " <s>"])

    tok, _ = bpe(unk_token="<unk>", fuse_unk=False)
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Replace(Regex(r"\s+"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    train(tok, ["<unk>"], vocab=500)
    save("metaspace_whole", tok, 150)

    tok, _ = bpe(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("isolated")])
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"], show_progress=False,
                                                          continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    save("affixes", tok, 150)


def letters(unk="u", chars="abcdefghijklmnopqrstuvwxyz<>:-.,!?'/0123456789 \n▁_"):
    return {c: i for i, c in enumerate([unk] + list(dict.fromkeys(c for c in chars if c != unk)))}


def cases():
    # added tokens and the spaces, words and normalizers beside them
    flags = [dict(), dict(lstrip=True), dict(rstrip=True), dict(lstrip=True, rstrip=True), dict(single_word=True),
             dict(single_word=True, lstrip=True, rstrip=True)]
    around = ["   <a> <b>   x", "a:<s>->", "x<a>y", "<a><a>", " <a> <a> ", "<a>\n\n<b>", "\u3000<a>\u3000", "<a>_", "_<a>", "é<a>", "1<a>2",
              "<A> <B>", "x <A> y", "<ab>", "<abc>", "<a", "a>", "<<a>>", "  ", "<a>\u200d", "①<a>①", "<b>  <a>  <s>", "<s><s>", "<b>x<b> y",
              "e\u0301<a>", "<a> e", "t<a>\tq", "<b>\r\n<a>"]
    for i, flag in enumerate(flags):
        for normalized in (False, True):
            tok = Tokenizer(models.BPE(letters(), [], unk_token="u"))
            tok.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            tok.add_special_tokens([AddedToken("<s>", special=True, normalized=normalized, **flags[(i + 3) % 6])])
            tok.add_tokens([AddedToken("<a>", normalized=normalized, **flag), AddedToken("<b>", normalized=not normalized, **flag),
                            AddedToken("<abc>", normalized=normalized), AddedToken("<ab", normalized=normalized)])
            save(f"added_{i}{'n' if normalized else 'r'}", tok, only=around)
    # split patterns and behaviours
    split_texts = ["a b", "  a  b  ", "ab12cd345", "a-b--c", "--a--", "a.b,c!", "\n\na\n", "xxaxx", "x", "a\nb\n", "don't we're", "12 34", "a  1"]
    k = 0
    for pattern in [Regex(r"\s+(?!\S)"), Regex(r"\s+"), Regex("-"), "-", Regex("x*"), Regex(r"\d+"), Regex(r"[a-c]+|\W"), Regex(r"(?<=a)b|\bc"),
                    Regex(r"^a|b$"), Regex(r"[^\S\n]+"), Regex(r"(?i)A"), Regex(r"\h+")]:
        for behaviour in ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]:
            for invert in (False, True):
                v = letters()
                for pair in [(a, b) for a in "a-1 x.b" for b in "a-1 x.b"]:  # joins show where the cuts are
                    v["".join(pair)] = len(v)
                merges = [(a, b) for a in "a-1 x.b" for b in "a-1 x.b"]
                tok = Tokenizer(models.BPE(v, merges, unk_token="u"))
                tok.pre_tokenizer = pre_tokenizers.Split(pattern, behaviour, invert=invert)
                if (k * 7) % 3 == 0 or isinstance(pattern, str):
                    save(f"split_{k:03d}", tok, only=split_texts)
                k += 1
    odd = ["ab1 a\nb", "12345678 a", "a\rb\u2028b\nb", "A\u00e9_1", "aQa a]b[c"]
    for n, pattern in enumerate([r"\d{1,3}+", r"\d{0,2}+b", r"\d{,2}", r"(?m:a.b)", r"(?mi)A.B", r"a.b", r"^b", r"b$", r"[[:alpha:]]+", r"\s++$|\s",
                                 r"\u0061+|\x{62}", r"[]a]+", r"[^]a]+", r"\Qa|\E", r"[\w-]+", r"a{2}|\d{3,}", r"a{x}|1{,}", r"(?i:'S|B)|\d(?=\d)"]):
        v = letters()
        pairs = [(a, b) for a in "ab123 .A]" for b in "ab123 .A]" if a in v and b in v]
        for pair in pairs:
            v["".join(pair)] = len(v)
        tok = Tokenizer(models.BPE(v, pairs, unk_token="u"))
        tok.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
        save(f"pattern_{n}", tok, only=split_texts + odd)
    for name, pre in [("whitespace", pre_tokenizers.Whitespace()), ("whitespace_split", pre_tokenizers.WhitespaceSplit()),
                      ("punctuation", pre_tokenizers.Punctuation("merged_with_previous")), ("digits", pre_tokenizers.Digits(False)),
                      ("bert", pre_tokenizers.BertPreTokenizer()), ("delimiter", pre_tokenizers.CharDelimiterSplit("-"))]:
        v = letters()
        pairs = [(a, b) for a in "ab12.,- " for b in "ab12.,- "]
        for p in pairs:
            v["".join(p)] = len(v)
        tok = Tokenizer(models.BPE(v, pairs, unk_token="u"))
        tok.pre_tokenizer = pre
        save(f"pre_{name}", tok, only=split_texts + ["a\u200db \u180ex\u2460\u00b2 e\u0301\u24b6_-", "a$b+c", "\u00bda\u2028b", "1\u0663a"])
    # normal forms: marks out of order, compatibility characters, Hangul
    marks = ["a\u0301\u0323", "\u0323\u0301\u0327a\u0345\u0301", "\u1e69\u0307", "s\u0307\u0323", "\u0344", "\u0f73\u0f71\u0f72", "\ufb03\u2460\u00bd",
             "\u1112\u1161\u11ab\uac00\u11a8", "\ufdfa", "\u212b\u2126", "\u0b4b\u0b3e", "\U0001d15e", "\u095c", "e\u0301" * 5, "\u00c5\u0323"]
    for form in (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()):
        chars = sorted({c for m in marks for c in form.normalize_str(m)} | {c for m in marks for c in m})
        tok = Tokenizer(models.BPE({c: i for i, c in enumerate(chars)}, []))
        tok.normalizer = form
        save(f"form_{type(form).__name__}", tok, only=marks + ["".join(marks)])
    # byte fallback and unk
    fall = ["a\nb", "a\n\nb", "\n", "x", "xy", "axyb", "a\nxb", "ax\nyb", "x\n", "é\n", "", "ab", "a😀b"]
    for k, kw in enumerate([dict(unk_token="u", byte_fallback=True), dict(unk_token="u", byte_fallback=True, fuse_unk=True),
                            dict(byte_fallback=True), dict(unk_token="u", fuse_unk=True), dict(unk_token="u"), dict()]):
        save(f"fallback_{k}", Tokenizer(models.BPE({"u": 0, "a": 1, "b": 2, "<0x0A>": 3}, [], **kw)), only=fall)


for name in ("trained", "cases", "scores"):
    open(f"{OUT}/{name}.jsonl", "w").close()
byte_level()
sentencepiece()
cases()
