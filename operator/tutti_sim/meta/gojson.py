"""What Go's encoding/json says of a text that is no JSON."""

from __future__ import annotations

from typing import Final

END: Final = "unexpected end of JSON input"
_SPACE: Final = " \t\r\n"
_DIGITS: Final = "0123456789"
_ESCAPES: Final = 'bfnrt\\/"'


class _FaultError(Exception):
    """Where reading stopped."""


def fault(data: bytes) -> str:
    """What is wrong with a text; it is asked only of texts that are no JSON."""
    reader = _Reader(data.decode("utf-8", "replace"))
    try:
        reader.value()
        reader.space()
        reader.expect_end()
    except _FaultError as error:
        return str(error)
    except RecursionError:
        return "exceeded max depth"
    return END


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _FaultError(END)
        return self._text[self._at]

    def _refuse(self, context: str) -> None:
        char = self._next()
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or (f"'{char}'" if char.isprintable() else f"'{_escaped(char)}'")
        raise _FaultError(f"invalid character {shown} {context}")

    def space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def expect_end(self) -> None:
        if self._at < len(self._text):
            self._refuse("after top-level value")

    def value(self) -> None:
        self.space()
        char = self._next()
        if char == "{":
            self._object()
        elif char == "[":
            self._array()
        elif char == '"':
            self._string()
        elif char == "-" or char in _DIGITS:
            self._number()
        elif char in "tfn":
            self._literal({"t": "true", "f": "false", "n": "null"}[char])
        else:
            self._refuse("looking for beginning of value")

    def _object(self) -> None:
        self._at += 1
        self.space()
        if self._next() == "}":
            self._at += 1
            return
        while True:
            self.space()
            if self._next() != '"':
                self._refuse("looking for beginning of object key string")
            self._string()
            self.space()
            if self._next() != ":":
                self._refuse("after object key")
            self._at += 1
            self.value()
            self.space()
            if self._closes("}", "after object key:value pair"):
                return

    def _array(self) -> None:
        self._at += 1
        self.space()
        if self._next() == "]":
            self._at += 1
            return
        while True:
            self.value()
            self.space()
            if self._closes("]", "after array element"):
                return

    def _closes(self, closing: str, context: str) -> bool:
        char = self._next()
        if char not in (",", closing):
            self._refuse(context)
        self._at += 1
        return char == closing

    def _string(self) -> None:
        self._at += 1
        while (char := self._next()) != '"':
            if char < " ":
                self._refuse("in string literal")
            self._at += 1
            if char == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        char = self._next()
        if char == "u":
            for _ in range(4):
                self._at += 1
                if self._next() not in "0123456789abcdefABCDEF":
                    self._refuse("in \\u hexadecimal character escape")
        elif char not in _ESCAPES:
            self._refuse("in string escape code")
        self._at += 1

    def _literal(self, word: str) -> None:
        for char in word:
            if self._next() != char:
                self._refuse(f"in literal {word} (expecting '{char}')")
            self._at += 1

    def _number(self) -> None:
        if self._next() == "-":
            self._at += 1
            if self._next() not in _DIGITS:
                self._refuse("in numeric literal")
        zero = self._next() == "0"
        self._at += 1
        while not zero and self._peek() in _DIGITS:
            self._at += 1
        if self._peek() == ".":
            self._at += 1
            self._some_digits("after decimal point in numeric literal")
        if self._peek() in ("e", "E"):
            self._at += 1
            if self._peek() in ("+", "-"):
                self._at += 1
            self._some_digits("in exponent of numeric literal")

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else "\0"

    def _some_digits(self, context: str) -> None:
        if self._next() not in _DIGITS:
            self._refuse(context)
        while self._peek() in _DIGITS:
            self._at += 1


def _escaped(char: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return named.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 0x80 else f"\\u{ord(char):04x}")  # noqa: PLR2004 - ASCII
