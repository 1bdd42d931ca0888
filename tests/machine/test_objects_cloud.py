"""The clouds, as far as a small server of our own can play them; tests/real has a real one."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cordwood.errors import Refused
from cordwood.machine.objects import ObjectMissing, Objects, StoreUnavailable, open_objects
from cordwood.machine.objects.cloud import Limits, in_words, open_cloud
from cordwood.machine.objects.credentials import of_azure, of_google, of_s3

ETAG = {"ETag": '"1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "sesame"}
Answer = tuple[int, dict[str, str], bytes]


class Played(ThreadingHTTPServer):
    """A server that answers as it is told, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answer: Callable[[str], Answer] = lambda method: (200, ETAG, b"")
        played = self

        class Ask(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                played.asked.append((self.command, self.path, headers))
                status, more, body = played.answer(self.command)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Ask)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that lost its patience

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def s3(self, limits: Limits | None = None) -> Objects:
        keys = {"access_key_id": "key", "secret_access_key": "sesame", "region": "us-east-1"}
        return open_cloud("s3", "bucket", "some/where", {"endpoint": self.url, **keys}, limits)


@pytest.fixture
def played() -> Iterator[Played]:
    with Played() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_s3_is_asked_to_put_only_if_the_name_is_free(played: Played) -> None:
    assert played.s3().put("a/b", b"data") is True
    ((method, path, headers),) = played.asked
    assert (method, path, headers["if-none-match"]) == ("PUT", "/bucket/some/where/a/b", "*")


def test_google_is_asked_to_put_only_if_the_name_is_free(played: Played) -> None:
    settings = of_google({"STORAGE_EMULATOR_HOST": played.url.removeprefix("http://")})
    assert open_cloud("gs", "bucket", "", settings).put("a/b", b"data") is True
    assert played.asked[-1][2]["x-goog-if-generation-match"] == "0"


def test_azure_is_asked_to_put_only_if_the_name_is_free(played: Played) -> None:
    string = f"DefaultEndpointsProtocol=http;AccountName=me;AccountKey=c2VzYW1l;BlobEndpoint={played.url}/me"
    settings = of_azure({"AZURE_STORAGE_CONNECTION_STRING": string})
    assert open_cloud("az", "container", "p", settings).put("a/b", b"data") is True
    method, path, headers = played.asked[-1]
    assert (method, path, headers["if-none-match"]) == ("PUT", "/me/container/p/a/b", "*")


def test_a_conflict_that_is_no_object_is_tried_again(played: Played) -> None:
    """S3 answers 409 when another put or a deletion of the name is under way: it decided nothing."""
    puts = iter([409, 409, 200])
    played.answer = lambda method: (next(puts) if method == "PUT" else 404, ETAG, b"")
    assert played.s3().put("a", b"data") is True
    assert [method for method, _, _ in played.asked] == ["PUT", "HEAD", "PUT", "HEAD", "PUT"]


def test_a_conflict_with_an_object_says_that_the_name_is_taken(played: Played) -> None:
    played.answer = lambda method: (412 if method == "PUT" else 200, ETAG, b"")
    assert played.s3().put("a", b"data") is False


def test_a_conflict_that_never_ends_is_unavailable(played: Played) -> None:
    played.answer = lambda method: (409 if method == "PUT" else 404, ETAG, b"")
    with pytest.raises(StoreUnavailable):
        played.s3().put("a", b"data")


def test_a_server_that_fails_is_tried_again_a_few_times(played: Played) -> None:
    played.answer = lambda method: (503, {}, b"slow down")
    with pytest.raises(StoreUnavailable, match="503 Service Unavailable"):
        played.s3().get("a")
    assert len(played.asked) == 1 + Limits().tries_again


def test_a_missing_bucket_is_not_a_missing_object(played: Played) -> None:
    body = b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"
    played.answer = lambda method: (404, {}, body)
    with pytest.raises(StoreUnavailable, match=r"404 Not Found: NoSuchBucket, The specified bucket does not exist$"):
        played.s3().get("a")
    with pytest.raises(StoreUnavailable):
        played.s3().put("a", b"")
    played.answer = lambda method: (404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
    with pytest.raises(ObjectMissing):
        played.s3().get("a")


@pytest.mark.parametrize("act", ["put", "get", "size", "list", "delete"])
def test_a_server_that_is_silent_is_unavailable_after_its_time(played: Played, act: str) -> None:
    silent = threading.Event()

    def answer(method: str) -> Answer:
        silent.wait(20)
        return 200, ETAG, b""

    played.answer = answer
    objects = played.s3(Limits(connect_s=0.2, answer_s=0.2, again_s=0.3, put_s=0.3))
    acts: dict[str, Callable[[], object]] = {
        "put": lambda: objects.put("a", b""),
        "get": lambda: objects.get("a"),
        "size": lambda: objects.size("a"),
        "list": lambda: objects.list(""),
        "delete": lambda: objects.delete(["a"]),
    }
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        acts[act]()
    silent.set()
    assert time.monotonic() - begun < 10


def test_a_body_that_stops_halfway_is_unavailable(played: Played) -> None:
    played.answer = lambda method: (200, {**ETAG, "Content-Length": "100"}, b"half")
    with pytest.raises(StoreUnavailable):
        played.s3(Limits(answer_s=0.2, again_s=0.3)).get("a")


def test_nobody_there_is_unavailable() -> None:
    objects = open_objects("s3://bucket/x", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", **KEYS})
    with pytest.raises(StoreUnavailable, match="s3://bucket/x cannot be used now"):
        objects.put("a", b"")


def test_plain_http_is_spoken_only_where_the_endpoint_says_so(played: Played) -> None:
    secure = played.url.replace("http:", "https:")
    with pytest.raises(StoreUnavailable):
        open_objects("s3://bucket", {"AWS_ENDPOINT_URL": secure, **KEYS}).get("a")
    assert played.asked == []
    open_objects("s3://bucket", {"AWS_ENDPOINT_URL": played.url, **KEYS}).put("a", b"")
    assert len(played.asked) == 1


def test_the_endpoint_for_s3_goes_before_the_one_for_all() -> None:
    both = {"AWS_ENDPOINT_URL": "https://all", "AWS_ENDPOINT_URL_S3": "https://s3"}
    assert of_s3({"HOME": "/nowhere", **both})["endpoint"] == "https://s3"
    assert of_s3({"HOME": "/nowhere", "AWS_ENDPOINT_URL": "https://all"})["endpoint"] == "https://all"


def test_a_profile_is_used_where_the_environment_has_no_keys(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id=d\naws_secret_access_key=d%d\n[work]\naws_access_key_id = w\n"
    )
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = here\n[profile work]\nregion = there\n")
    home = {"HOME": str(tmp_path)}
    keys = {"aws_access_key_id": "d", "aws_secret_access_key": "d%d"}
    assert of_s3(home) == {**keys, "region": "here"}
    assert of_s3({**home, "AWS_PROFILE": "work"}) == {"aws_access_key_id": "w", "region": "there"}
    assert of_s3({**home, "AWS_ACCESS_KEY_ID": "e", "AWS_REGION": "r"}) == {"aws_access_key_id": "e", "region": "r"}
    assert of_s3({**home, "AWS_WEB_IDENTITY_TOKEN_FILE": "t"}) == {"region": "here"}
    (tmp_path / ".aws" / "credentials").write_text("no profile at all")
    assert of_s3(home) == {"region": "here"}


def test_an_account_that_is_not_named_is_refused_in_words() -> None:
    with pytest.raises(Refused, match=r"az://container cannot be opened: .*[Aa]ccount"):
        open_objects("az://container", {})


def test_what_an_error_says_has_no_query_and_no_page_of_debug() -> None:
    error = OSError("PUT https://host/c/a?sig=sesame&se=1 failed\n\nDebug source:\nsesame { }")
    assert in_words(error) == "PUT https://host/c/a failed"
