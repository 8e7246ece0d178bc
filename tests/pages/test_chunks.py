import base64
import json
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rl_clarity.base.errors import ClarityError
from rl_clarity.pages import chunks
from rl_clarity.pages.chunks import DTYPES, Chunk, decode_chunk, encode_chunk, parse_embedded, parse_script
from tests.pipeline.small import record_calls

NAME = "attribution/2b/1/value-1.js"
any_array = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays(np.dtype(dtype), array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
)


@given(
    st.dictionaries(st.sampled_from(["codes", "scales", "totals.value", "png"]), any_array, min_size=1), st.booleans()
)
def test_arrays_survive_encoding_as_a_chunk(data: dict[str, np.ndarray], quick: bool) -> None:
    chunk = parse_script(encode_chunk(NAME, data, quick=quick).script())
    assert chunk.name == NAME
    decoded = decode_chunk(chunk)
    assert list(decoded) == list(data)
    for key, array in data.items():
        assert decoded[key].dtype == array.dtype
        np.testing.assert_array_equal(decoded[key], array)


def test_chunks_follow_the_documented_format() -> None:
    codes = np.array([[[1, -2]], [[100, -100]]], np.int8)  # (2, 1, 2)
    script = encode_chunk(NAME, {"codes": codes, "scales": np.array([1.5, 2], np.float32)}).script().decode("ascii")
    assert script.startswith(f'rlClarityChunk("{NAME}", ')
    assert script.endswith('");\n')
    header, payload = script.removeprefix(f'rlClarityChunk("{NAME}", ').removesuffix('");\n').rsplit(', "', 1)
    entries = json.loads(header)["arrays"]
    assert entries["scales"] == {"dtype": "float32", "shape": [2]}
    assert {key: entries["codes"][key] for key in ("dtype", "shape")} == {"dtype": "int8", "shape": [2, 1, 2]}
    stream = zlib.decompress(base64.b64decode(payload))
    if entries["codes"]["filter"] == "delta planes":
        assert stream[:4] == bytes([1, 99, 254, 158])
    else:
        assert entries["codes"]["filter"] == "planes"
        assert stream[:4] == bytes([1, 100, 254, 156])
    assert stream[4:] == np.array([1.5, 2], "<f4").tobytes()


def test_slowly_changing_arrays_are_stored_as_differences_of_steps() -> None:
    rng = np.random.default_rng(0)
    constant = np.broadcast_to(rng.integers(-127, 128, (16, 16, 9)), (64, 16, 16, 9)).astype(np.int8)
    noise = rng.integers(-127, 128, constant.shape).astype(np.int8)
    headers = [
        json.loads(encode_chunk(NAME, {"codes": codes}).header)["arrays"]["codes"] for codes in (constant, noise)
    ]
    assert [header["filter"] for header in headers] == ["delta planes", "planes"]
    np.testing.assert_array_equal(decode_chunk(encode_chunk(NAME, {"codes": constant}))["codes"], constant)
    assert len(encode_chunk(NAME, {"codes": constant}).payload) < constant.size / 16
    assert len(encode_chunk(NAME, {"codes": noise}).payload) < noise.size * 1.001


def test_arrays_of_earlier_pages_without_planes_are_read() -> None:
    codes = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    for name, stored in (("", codes), ("delta", np.diff(codes, axis=0, prepend=np.int8(0)))):
        header = {"arrays": {"codes": {"dtype": "int8", "shape": [2, 3, 4]} | ({"filter": name} if name else {})}}
        chunk = Chunk(NAME, json.dumps(header), zlib.compress(stored.tobytes()))
        np.testing.assert_array_equal(decode_chunk(chunk)["codes"], codes)


def test_an_unknown_chunk_filter_is_refused() -> None:
    header = '{"arrays": {"codes": {"dtype": "int8", "shape": [2], "filter": "delta x"}}}'
    with pytest.raises(ClarityError, match="unknown filter 'delta x'"):
        decode_chunk(Chunk(NAME, header, zlib.compress(b"ab")))


def test_encoding_the_same_arrays_gives_the_same_bytes() -> None:
    codes = np.random.default_rng(0).integers(-5, 5, (9, 4, 4, 3)).astype(np.int8)
    assert encode_chunk(NAME, {"codes": codes}).script() == encode_chunk(NAME, {"codes": codes.copy()}).script()
    strided = np.asfortranarray(codes)
    assert encode_chunk(NAME, {"codes": codes}).script() == encode_chunk(NAME, {"codes": strided}).script()


def test_chunks_encoded_with_quick_are_compressed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = record_calls(monkeypatch, chunks, "_compress")
    frames = np.random.default_rng(0).integers(0, 9, (9, 4, 4, 3), np.uint8)
    encode_chunk(NAME, {"pixels": frames}, quick=True)
    assert len(compressed) == 1


def test_bytes_and_metadata_survive_encoding_as_a_chunk() -> None:
    chunk = parse_script(encode_chunk(NAME, {"png": b"\x89PNG"}, {"subdiv_mults": [0.25, 1]}).script())
    assert decode_chunk(chunk)["png"].tobytes() == b"\x89PNG"
    assert json.loads(chunk.header)["meta"] == {"subdiv_mults": [0.25, 1]}


def test_chunks_survive_embedding_in_html() -> None:
    chunk = encode_chunk(NAME, {"codes": np.arange(4, dtype=np.uint8)}, {"text": "</script><!--"})
    element = chunk.embedded()
    assert element.count("<") == 2  # those of the element's tags
    text = element.split(">", 1)[1].removesuffix("</script>")
    assert parse_embedded(NAME, text) == chunk


@pytest.mark.parametrize("name", ["../x.js", "/x.js", "a//b.js", 'a".js', "ä.js", ""])
def test_invalid_chunk_names_are_refused(name: str) -> None:
    with pytest.raises(ClarityError):
        encode_chunk(name, {"a": np.zeros(1, np.uint8)})


def test_unsupported_array_types_are_refused() -> None:
    with pytest.raises(ClarityError, match="float64"):
        encode_chunk(NAME, {"a": np.zeros(1)})


@pytest.mark.parametrize(
    "damage",
    [
        lambda script: script[: len(script) // 2],
        lambda script: script.replace(b'"shape":[4000]', b'"shape":[4001]'),
        lambda script: script.replace(b'"shape":[4000]', b'"shape":[3999]'),
        lambda script: script.replace(b'"uint8"', b'"object"'),
        lambda script: script.replace(b'"shape":[4000]', b'"shape":[-1]'),
        lambda script: script[:-60] + b"AAAAAAAAAAAAAAAAAAAA" + script[-40:],
        lambda script: script.replace(b'"shape":[4000]', b'"shape":[%s4000]' % (b"1," * 70)),
        lambda script: script.replace(b"{", b"[" * 50_000, 1),
        lambda script: script.replace(b'{"arrays":', b"[0,"),
        lambda script: b"alert(1)",
        lambda script: b"",
    ],
)
def test_a_damaged_chunk_is_an_error(damage: Callable[[bytes], bytes]) -> None:
    script = encode_chunk(NAME, {"a": np.random.default_rng(0).integers(0, 9, 4000).astype(np.uint8)}).script()
    with pytest.raises(ClarityError):
        decode_chunk(parse_script(damage(script)))


def test_a_file_that_is_not_a_chunk_is_named_in_the_error() -> None:
    with pytest.raises(ClarityError, match=r"^series\.js is not a chunk of a page: it starts with b'alert"):
        parse_script(b"alert(1)", "series.js")


def test_small_chunks_that_declare_gigabytes_are_refused() -> None:
    header = json.dumps({"arrays": {"a": {"dtype": "uint8", "shape": [6 << 30]}}})
    with pytest.raises(ClarityError, match=rf"{NAME} is damaged: its 1000 bytes claim to unpack to 6442450944"):
        decode_chunk(Chunk(NAME, header, bytes(1000)))


def test_decompression_stops_at_the_declared_size() -> None:
    small = encode_chunk(NAME, {"a": np.zeros(10, np.uint8)})
    bomb = type(small)(NAME, small.header, zlib.compress(bytes(1 << 24)))
    with pytest.raises(ClarityError, match="10 bytes"):
        decode_chunk(bomb)
