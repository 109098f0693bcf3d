"""A client of a Probity server. It needs Python 3.9 and nothing else.

A call is tried again after 429, 500, 502, 503, 504 and a lost connection, as Retry-After says. A POST keeps one
Idempotency-Key over all attempts, so that a repeat is answered once and charged once.

Answers are dicts with the members that docs/api.md describes.
"""

import base64
import hashlib
import hmac
import http.client
import itertools
import json
import os
import re
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request

ENDED = ("completed", "cancelled", "failed", "expired")  # states of a job that is over
RESUMED_FROM = 8 << 20  # size of a list, in bytes, from which an upload that broke off goes on where it stopped
AGAIN = (429, 500, 502, 503, 504)  # statuses after which a later attempt may have another answer


class Error(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status, detail, request_id, retry_after):
        super().__init__(f"{detail} (status {status}, request {request_id})")
        self.status, self.detail = status, detail
        self.request_id, self.retry_after = request_id, retry_after  # seconds; None: the server names none


class WebhookError(Exception):
    """A callback that none of the secrets signed, or an old one."""


class Client:
    """A client of one server. It may be used by several threads."""

    def __init__(self, url, key, attempts=4, max_pause=60, timeout=90, sleep=time.sleep):
        self.url, self.key = url.rstrip("/"), key
        self.attempts, self.max_pause = attempts, max_pause  # a longer Retry-After is raised as an error
        self.timeout, self.sleep = timeout, sleep

    def verify(self, email, **options):
        """Verifies one address. Options: check_smtp, timeout, max_age, details."""
        return self._json("/v1/verify/single", {"email": email, **options})

    def verify_batch(self, emails, **options):
        """Verifies up to 1,000 addresses; the results are in their order."""
        return self._json("/v1/verify/batch", {"emails": list(emails), **options})["results"]

    def upload(self, path, progress=None, **parts):
        """Uploads a list and returns its job. Parts are those of the form, such as details="true".

        progress(sent, total) is called with bytes. If the connection of a list of 8 MiB or more breaks, what the
        server has is not sent again.
        """
        size = os.path.getsize(path)
        resumed = size >= RESUMED_FROM
        if resumed:
            parts = {**parts, "upload_id": self._send_resumed(path, size, progress)}
        boundary = secrets.token_hex(16)
        # a header's line cannot carry quotes, backslashes, line ends and bytes that are no text
        filename = re.sub(r'[\x00-\x1f\x7f"\\]', "_", os.path.basename(path)).encode("utf-8", "replace").decode()
        before = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in parts.items()
        )
        if not resumed:
            before += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'
        before, after = before.encode(), f"{'' if resumed else chr(13) + chr(10)}--{boundary}--\r\n".encode()
        total = len(before) + (0 if resumed else size) + len(after)

        def body():
            pieces = itertools.chain([before], () if resumed else _pieces(path), [after])
            return _counted(pieces, 0, total, None if resumed else progress)

        kind = f"multipart/form-data; boundary={boundary}"
        with self._send("/v1/verify/bulk", body, kind, total) as answer:
            return json.load(answer)

    def _send_resumed(self, path, size, progress):
        """Sends a list by tus 1.0.0 and returns the id of the upload.

        Attempts are counted from the last that sent something.
        """
        tus = {"Tus-Resumable": "1.0.0"}
        name = base64.b64encode(os.path.basename(path).encode("utf-8", "replace")).decode()
        created = {**tus, "Upload-Length": str(size), "Upload-Metadata": "filename " + name}
        with self._send("/v1/uploads", lambda: b"", "", 0, created) as answer:
            upload_id = json.load(answer)["upload_id"]
        url, last, attempt = "/v1/uploads/" + upload_id, 0, 1
        while True:
            with self._send(url, headers=tus) as answer:
                offset = json.load(answer)["offset"]
            if offset == size:
                return upload_id
            if offset > last:
                last, attempt = offset, 1
            headers = {**tus, "Upload-Offset": str(offset), "Content-Length": str(size - offset)}
            headers["Content-Type"] = "application/offset+octet-stream"
            rest = _counted(_pieces(path, offset), offset, size, progress)
            try:
                self._attempt("PATCH", url, rest, headers).close()
                return upload_id
            except (OSError, http.client.HTTPException, Error) as problem:
                self._pause(problem, attempt, conflict=True)
            attempt += 1

    def job(self, job_id):
        """Returns the record of a job."""
        return self._json(_job_path(job_id))

    def wait(self, job_id, progress=None):
        """Returns a job once it has ended; progress(job) is called every few seconds.

        A job that is ready or paused goes on only if it is started or resumed.
        """
        while True:
            job = self._json(_job_path(job_id) + "?wait=10")
            if job["status"] in ENDED:
                return job
            if progress:
                progress(job)

    def rows(self, job_id, *statuses):
        """Yields the results of a job in the order of its list: all, or those with one of the statuses."""
        query = {"format": "jsonl"}
        if statuses:
            query["status"] = ",".join(statuses)
        with self._send(_job_path(job_id) + "/results?" + urllib.parse.urlencode(query)) as answer:
            for line in answer:
                yield json.loads(line)

    def _json(self, path, content=None):
        body, kind, text = None, None, b""
        if content is not None:
            text = json.dumps(content).encode()
            body, kind = lambda: text, "application/json"
        with self._send(path, body, kind, len(text)) as answer:
            return json.load(answer)

    def _send(self, path, body=None, kind=None, size=0, headers=None):
        """Sends a GET, or a POST if it has a body, until the answer is final. body() makes the body of an attempt."""
        headers = dict(headers or {})
        if body:
            headers.update({"Content-Type": kind, "Content-Length": str(size)})
            headers["Idempotency-Key"] = secrets.token_hex(16)
        attempt = 1
        while True:
            try:
                return self._attempt("POST" if body else "GET", path, body() if body else None, headers)
            except (OSError, http.client.HTTPException, Error) as problem:
                self._pause(problem, attempt, conflict=body and getattr(problem, "retry_after", None))
            attempt += 1

    def _attempt(self, method, path, body, headers):
        """Sends a request once; an answer that is not 2xx is raised as an Error."""
        headers = {"Authorization": "Bearer " + self.key, **headers}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as answer:
            raise _error_of(answer) from None

    def _pause(self, problem, attempt, conflict):
        """Waits for the next attempt; raises the problem if it is final. conflict: an earlier attempt may go on."""
        pause = 2 ** (attempt - 1)
        if isinstance(problem, Error):
            if problem.status not in AGAIN and not (problem.status == 409 and conflict):
                raise problem
            pause = max(pause, problem.retry_after or 0)
        if attempt >= self.attempts or pause > self.max_pause:
            raise problem
        self.sleep(pause)


def read_webhook(headers, body, *signing_secrets, now=None):
    """Returns the event of a callback after it has checked its signature (Standard Webhooks).

    body is bytes. After a secret is replaced, both are good for a day: give both.
    """
    headers = {name.lower(): value for name, value in headers.items()}
    at = headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs((time.time() if now is None else now) - int(at)) > 300:
        raise WebhookError(f"webhook-timestamp is {at!r}")
    signed = f"{headers.get('webhook-id', '')}.{at}.".encode() + body
    given = headers.get("webhook-signature", "").split()
    for secret in signing_secrets:
        key = base64.b64decode(secret[len("whsec_"):] if secret.startswith("whsec_") else secret)
        want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if any(hmac.compare_digest(want.encode(), one.encode()) for one in given):
            return json.loads(body)
    raise WebhookError("no signature matches")


def _job_path(job_id):
    return "/v1/verify/bulk/" + urllib.parse.quote(job_id, safe="")


def _pieces(path, offset=0):
    with open(path, "rb") as file:
        file.seek(offset)
        while piece := file.read(1 << 16):
            yield piece


def _counted(pieces, sent, total, progress):
    for piece in pieces:
        sent += len(piece)
        yield piece
        if progress:
            progress(sent, total)


def _error_of(answer):
    with answer:
        text = answer.read(1 << 16)
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"{answer.code} {answer.reason}"
    wait = answer.headers.get("Retry-After", "")
    return Error(answer.code, detail, answer.headers.get("X-Request-Id"), int(wait) if wait.isdecimal() else None)
