"""boto3 and google-cloud-storage as the reference: run by the stores' own Python, not the tests'.

Standard input: a line about the store, then a line for each call: [{"do": …}, …]. Standard output:
a line for each of them, {"answers": one for each order, "error": ""}. Contents travel in base64.
"""

import base64
import json
import sys
import traceback
from typing import Any


class S3:
    def __init__(self, store: dict[str, Any]) -> None:
        import boto3
        from botocore.config import Config

        self.client = boto3.client(
            "s3",
            endpoint_url=store["url"],
            region_name=store["region"],
            aws_access_key_id=store["access"],
            aws_secret_access_key=store["secret"],
            verify=store.get("ca") or None,
            config=Config(
                s3={"addressing_style": "path"},
                retries={"max_attempts": 1},
                # Over TLS it would send a trailer without a length, which rclone's server refuses.
                request_checksum_calculation="when_required",
            ),
        )

    def make_bucket(self, bucket: str) -> None:
        self.client.create_bucket(Bucket=bucket)

    def put(self, bucket: str, key: str, body: str, checksum: str = "") -> None:
        extra = {"ChecksumAlgorithm": checksum} if checksum else {}
        self.client.put_object(Bucket=bucket, Key=key, Body=base64.b64decode(body), **extra)

    def upload(
        self,
        bucket: str,
        key: str,
        file: str,
        part: int = 0,
        checksum: str = "",
        metadata: dict[str, str] | None = None,
    ) -> None:
        """By parts where it is large, as people's own programs do."""
        from boto3.s3.transfer import TransferConfig

        sizes = {"multipart_threshold": part, "multipart_chunksize": part} if part else {}
        extra: dict[str, Any] = {"ChecksumAlgorithm": checksum} if checksum else {}
        extra |= {"Metadata": metadata} if metadata else {}
        config = TransferConfig(**sizes)
        self.client.upload_file(file, bucket, key, Config=config, ExtraArgs=extra)

    def get(self, bucket: str, key: str) -> str:
        body = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return base64.b64encode(body).decode()

    def listed(self, bucket: str, prefix: str = "") -> dict[str, int]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", ())}

    def head(self, bucket: str, key: str) -> dict[str, Any]:
        found = self.client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        return {name: value for name, value in found.items() if isinstance(value, str | int)}

    def uploads(self, bucket: str) -> list[str]:
        """Keys of uploads that were begun and neither completed nor ended."""
        found = self.client.list_multipart_uploads(Bucket=bucket)
        return [item["Key"] for item in found.get("Uploads", ())]

    def delete(self, bucket: str, key: str) -> None:
        self.client.delete_object(Bucket=bucket, Key=key)


class Google:
    def __init__(self, store: dict[str, Any]) -> None:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage
        from google.oauth2.service_account import Credentials

        account = store["account"]
        self.client = storage.Client(
            project="berth-test",
            credentials=Credentials.from_service_account_info(account)
            if account
            else AnonymousCredentials(),
            client_options={"api_endpoint": store["url"]},
        )

    def make_bucket(self, bucket: str) -> None:
        self.client.create_bucket(bucket)

    def put(self, bucket: str, key: str, body: str, checksum: str = "auto") -> None:
        blob = self.client.bucket(bucket).blob(key)
        blob.upload_from_string(base64.b64decode(body), checksum=checksum or "auto")

    def upload(self, bucket: str, key: str, file: str, part: int = 0, checksum: str = "") -> None:
        blob = self.client.bucket(bucket).blob(key, chunk_size=part or None)
        blob.upload_from_filename(file, checksum=checksum or "auto")

    def get(self, bucket: str, key: str) -> str:
        body = self.client.bucket(bucket).blob(key).download_as_bytes()
        return base64.b64encode(body).decode()

    def listed(self, bucket: str, prefix: str = "") -> dict[str, int]:
        return {str(b.name): b.size or 0 for b in self.client.list_blobs(bucket, prefix=prefix)}

    def head(self, bucket: str, key: str) -> dict[str, Any]:
        blob = self.client.bucket(bucket).get_blob(key)
        if blob is None:
            raise KeyError(key)
        return {"crc32c": blob.crc32c, "md5": blob.md5_hash, "size": blob.size}

    def delete(self, bucket: str, key: str) -> None:
        self.client.bucket(bucket).blob(key).delete()


def answered(client: S3 | Google, orders: list[dict[str, Any]]) -> dict[str, Any]:
    answers = []
    try:
        for order in orders:
            does = getattr(client, order.pop("do").replace("-", "_"))
            answers.append(does(**order))
    except Exception:  # noqa: BLE001 - the caller is told, and the next call may be right
        return {"answers": [], "error": traceback.format_exc()}
    return {"answers": answers, "error": ""}


def main() -> None:
    store = json.loads(sys.stdin.readline())
    client = Google(store) if store["kind"] == "gcs" else S3(store)
    say(answered(client, []))
    for line in sys.stdin:
        say(answered(client, json.loads(line)))


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
