"""Functions of expressions about addresses of networks: `ip`, `cidr` and `url`.

Source: Kubernetes 1.36, staging/src/k8s.io/apiserver/pkg/cel/library/{ip,cidr,urls}.go; what an address is: Go's
net/netip, and what a URL is: Go's net/url, ParseRequestURI, which differ from Python's ipaddress and urllib.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from cel_expr_python import cel

from tutti.cluster.devices.expression_values import (
    ADDRESS,
    ADDRESS_TYPE,
    BOOL,
    INT,
    NETWORK,
    NETWORK_TYPE,
    TEXT,
    URL,
    URL_TYPE,
    Function,
    ObjectMap,
    Overload,
    SelectorError,
    content_of,
)

_Address = IPv4Address | IPv6Address
T = TypeVar("T")
_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_LOCAL_MULTICAST: Final = 0xFF02


def _read_address(text: str) -> _Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise SelectorError(f'IP Address "{text}" parse error during conversion from string') from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise SelectorError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise SelectorError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _read_network(text: str) -> tuple[_Address, int]:
    address, _, bits = text.rpartition("/")
    try:
        found = _read_address(address)
    except SelectorError:
        found = None
    if found is None or _BITS.fullmatch(bits) is None or int(bits) > found.max_prefixlen:
        raise SelectorError(f'network address parse error during conversion from string: "{text}"')
    return found, int(bits)


def _address_of(value: ObjectMap) -> _Address:
    return ip_address(content_of(value, ADDRESS))


def _network_of(value: ObjectMap) -> tuple[_Address, int]:
    address, _, bits = content_of(value, NETWORK).rpartition("/")
    return ip_address(address), int(bits)


def _succeeds(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except SelectorError:
        return False
    return True


def _is_link_local_multicast(address: _Address) -> bool:
    """As Go's net/netip has it: 224.0.0.0/24, and of IPv6 what has link-local scope."""
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == 0xE00000  # noqa: PLR2004 - 224.0.0
    return (int(address) >> 112) & 0xFF0F == _LOCAL_MULTICAST


def _is_global_unicast(address: _Address) -> bool:
    if isinstance(address, IPv4Address) and int(address) == 2**32 - 1:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _has(network: tuple[_Address, int], address: _Address) -> bool:
    own, bits = network
    shift = own.max_prefixlen - bits
    return own.version == address.version and int(own) >> shift == int(address) >> shift


def _has_address(network: ObjectMap, other: ObjectMap | str) -> bool:
    return _has(_network_of(network), _told(_read_address, other) if isinstance(other, str) else _address_of(other))


def _has_network(network: ObjectMap, other: ObjectMap | str) -> bool:
    one = _network_of(network)
    inner = _told(_read_network, other) if isinstance(other, str) else _network_of(other)
    return one[1] <= inner[1] and _has(one, inner[0])


def _told(read: Callable[[str], T], text: str) -> T:
    """Return what a text says that stands in place of a value; what says nothing is no such value."""
    try:
        return read(text)
    except SelectorError:
        raise SelectorError("no such overload") from None


def _network_map(address: _Address, bits: int) -> ObjectMap:
    return {NETWORK: f"{address}/{bits}"}


def _masked(value: ObjectMap) -> ObjectMap:
    address, bits = _network_of(value)
    shift = address.max_prefixlen - bits
    return _network_map(type(address)(int(address) >> shift << shift), bits)


def _as_text(value: ObjectMap) -> str:
    text: str | None = value.get(ADDRESS) or value.get(NETWORK)
    if text is None:
        raise SelectorError("no such overload")
    return text


class ParsedUrl(NamedTuple):
    """The parts of a URL, as Go's net/url has them."""

    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_ESCAPES: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_HOST: Final = re.compile(r"""(?:[^\x00-\x7f]|[A-Za-z0-9\-_.~!$&'()*+,;=\[\]<>"]|%[89A-Fa-f][0-9A-Fa-f])*""")
_ESCAPED: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*", re.ASCII)


def parsed_url(text: str) -> ParsedUrl:
    """Return the parts of a URL.

    Raises:
        SelectorError: It is none that a request could name: an absolute one, or an absolute path.
    """
    _parts(text, asked_for=True)
    whole, _, fragment = text.partition("#")
    if _ESCAPES.search(fragment):
        raise _wrong_url(text)
    return _parts(whole, asked_for=False)


def _wrong_url(text: str) -> SelectorError:
    return SelectorError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')


def _parts(text: str, *, asked_for: bool) -> ParsedUrl:
    """Return the parts of a text; `asked_for`: as a request names it, so that two slashes begin a path."""
    wrong = _wrong_url(text)
    if not text or any(ord(one) < 0x20 or one == "\x7f" for one in text):  # noqa: PLR2004 - before the space
        raise wrong
    if text == "*":
        return ParsedUrl(path="*")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise wrong
        return ParsedUrl(scheme, query=query)  # opaque, such as mailto:somebody
    host = ""
    if rest.startswith("//") and (scheme or not (asked_for or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host_of(authority, wrong), slash + path
    if _ESCAPES.search(rest):
        raise wrong
    return ParsedUrl(scheme, host, rest, query)


def _host_of(authority: str, wrong: SelectorError) -> str:
    user, at, host = authority.rpartition("@")
    if at and (_USER.fullmatch(user) is None or _ESCAPES.search(user)):
        raise wrong
    if host.startswith("["):
        inside, closed, port = host[1:].rpartition("]")
        try:
            IPv6Address(inside.replace("%25", "%"))
        except AddressValueError:
            raise wrong from None
        if not closed or _PORT.fullmatch(port) is None:
            raise wrong
        return host
    name, colon, port = host.rpartition(":")
    if not colon:
        name, port = host, ""
    if _PORT.fullmatch(colon + port) is None or ":" in name or _HOST.fullmatch(name) is None:
        raise wrong
    return unquote_to_bytes(name).decode(errors="replace") + colon + port


def _url_of(value: ObjectMap) -> ParsedUrl:
    return parsed_url(content_of(value, URL))


def _read_url(text: str) -> ObjectMap:
    parsed_url(text)
    return {URL: text}


def _hostname(value: ObjectMap) -> str:
    host = _url_of(value).host
    if host.startswith("["):
        return host[1:].rpartition("]")[0].replace("%25", "%")
    return host.partition(":")[0]


def _port(value: ObjectMap) -> str:
    return _url_of(value).host.rpartition("]")[2].partition(":")[2]


def _escaped_path(value: ObjectMap) -> str:
    """Return the path as it was written where that is a valid escape of it, otherwise escaped anew."""
    path = _url_of(value).path
    return path if _ESCAPED.fullmatch(path) else quote(unquote_to_bytes(path), safe="/$&+,:;=@")


def _query(value: ObjectMap) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    pairs = [one for one in _url_of(value).query.split("&") if ";" not in one and not _ESCAPES.search(one)]
    for key, said in parse_qsl("&".join(pairs), keep_blank_values=True):
        out.setdefault(key, []).append(said)
    return out


def _address_test(name: str, holds: Callable[[_Address], bool]) -> Function:
    return Function(name, [Overload([ADDRESS_TYPE], BOOL, lambda one: holds(_address_of(one)))])


def _url_part(name: str, does: Callable[[ObjectMap], Any], returns: Any = TEXT) -> Function:
    return Function(name, [Overload([URL_TYPE], returns, does)])


NETWORK_FUNCTIONS: Final = [
    Function(
        "ip",
        [
            Overload([TEXT], ADDRESS_TYPE, lambda text: {ADDRESS: str(_read_address(text))}, member=False),
            Overload([NETWORK_TYPE], ADDRESS_TYPE, lambda one: {ADDRESS: str(_network_of(one)[0])}),
        ],
    ),
    Function("isIP", [Overload([TEXT], BOOL, lambda text: _succeeds(_read_address, text))], member=False),
    Function("ip.isCanonical", [Overload([TEXT], BOOL, lambda text: str(_read_address(text)) == text)], member=False),
    Function("family", [Overload([ADDRESS_TYPE], INT, lambda one: _address_of(one).version)]),
    _address_test("isUnspecified", lambda one: one.is_unspecified),
    _address_test("isLoopback", lambda one: one.is_loopback),
    _address_test("isLinkLocalMulticast", _is_link_local_multicast),
    _address_test("isLinkLocalUnicast", lambda one: one.is_link_local),
    _address_test("isGlobalUnicast", _is_global_unicast),
    Function("cidr", [Overload([TEXT], NETWORK_TYPE, lambda text: _network_map(*_read_network(text)))], member=False),
    Function("isCIDR", [Overload([TEXT], BOOL, lambda text: _succeeds(_read_network, text))], member=False),
    Function(
        "containsIP",
        [Overload([NETWORK_TYPE, one], BOOL, _has_address) for one in (TEXT, ADDRESS_TYPE)],
    ),
    Function(
        "containsCIDR",
        [Overload([NETWORK_TYPE, one], BOOL, _has_network) for one in (TEXT, NETWORK_TYPE)],
    ),
    Function("masked", [Overload([NETWORK_TYPE], NETWORK_TYPE, _masked)]),
    Function("prefixLength", [Overload([NETWORK_TYPE], INT, lambda one: _network_of(one)[1])]),
    Function("url", [Overload([TEXT], URL_TYPE, _read_url)], member=False),
    Function("isURL", [Overload([TEXT], BOOL, lambda text: _succeeds(parsed_url, text))], member=False),
    _url_part("getScheme", lambda one: _url_of(one).scheme),
    _url_part("getHost", lambda one: _url_of(one).host),
    _url_part("getHostname", _hostname),
    _url_part("getPort", _port),
    _url_part("getEscapedPath", _escaped_path),
    _url_part("getQuery", _query, cel.Type.Map(TEXT, cel.Type.List(TEXT))),
]

TEXT_OF: Final = [Overload([one], TEXT, _as_text) for one in (ADDRESS_TYPE, NETWORK_TYPE)]
"""What of these `string(x)` takes, beside values that CEL knows itself."""
