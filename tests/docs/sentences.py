"""Sentences of hand-written Markdown: each cell of a table, list item and sentence of a paragraph. Code blocks, headings and
generated parts are left out."""

import re

FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<text>.*?)^ *```", re.M | re.S)
GENERATED_PART = re.compile(r"<!-- Generated: (\w+)\..*?<!-- End of \1 -->|<!-- Generated\. .*\Z", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)")
END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<! al\.)(?<!\*\d\.)(?<=[.?!])[*_)\"]*\s+")
WORD = re.compile(r"(?<!\S)[(\"]?[A-Za-z][a-z]+(?=[\s.,;:!?)\"]|$)")


def blank(match):
    """The line breaks of what is left out, so that lines keep their numbers."""
    return "\n" * match[0].count("\n")


def paragraphs(text):
    """Runs of text without a break: the number of the first line, and the words."""
    for pattern in (FENCE, GENERATED_PART, COMMENT):
        text = pattern.sub(blank, text)
    begin, words = 0, []
    for at, line in enumerate([*text.split("\n"), ""], 1):
        apart = not line.strip() or line.startswith("#") or line.lstrip().startswith("|")
        if words and (apart or ITEM.match(line)):
            yield begin, " ".join(words)
            words = []
        if not apart:
            begin = begin if words else at
            words.append(ITEM.sub("", line).strip())
        elif line.lstrip().startswith("|"):
            yield from ((at, cell.strip()) for cell in re.split(r"(?<!\\)\|", CODE.sub(lambda code: code[0].replace("|", "\\|"), line)))


def sentences(text):
    """Sentences with at least three plain words: the number of the paragraph's first line, and the sentence. A link is its text."""
    for at, words in paragraphs(text):
        codes = CODE.findall(words)
        for sentence in END.split(LINK.sub(r"\1", CODE.sub("`", words))):
            if len(WORD.findall(sentence)) > 2:
                yield at, re.sub("`", lambda _: codes.pop(0) if codes else "`", sentence)
            else:
                del codes[: sentence.count("`")]


def count(sentence):
    """Words of a sentence. Code is one word."""
    return len(re.findall(r"\w[^\s]*", CODE.sub("code", sentence)))
