"""Programs made of client libraries, as a careful person writes them; run by the stores' Python.

    python loads_clients.py obstore|crt|boto3|transfer-manager ENDPOINT BUCKET PREFIX FOLDER

None verifies more than its library does by itself; of ``crt`` it is looked at that it did.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

AT_ONCE = 32
PART = 16 * 2**20
LARGE = 4 * PART


def obstore(endpoint: str, bucket: str, prefix: str, folder: Path) -> None:
    """Streams small objects to their file; large ones by ranges, written at their place."""
    from obstore.store import S3Store

    store = S3Store(
        bucket,
        endpoint=endpoint,
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        client_options={"allow_http": True},
    )
    asyncio.run(_obstore(store, prefix, folder))


async def _obstore(store: Any, prefix: str, folder: Path) -> None:
    import obstore as obs

    slots, parts = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(8)

    async def part(key: str, file: int, start: int, end: int) -> None:
        async with parts:
            body = await obs.get_range_async(store, key, start=start, end=end)
            await asyncio.to_thread(os.pwrite, file, body, start)

    async def one(key: str, size: int) -> None:
        target = folder / key
        if size > LARGE:
            file = os.open(target, os.O_WRONLY | os.O_CREAT)
            starts = range(0, size, PART)
            await asyncio.gather(*(part(key, file, s, min(s + PART, size)) for s in starts))
            os.close(file)
            return
        async with slots:
            got = await obs.get_async(store, key)
            with target.open("wb") as out:
                async for chunk in got.stream():
                    out.write(chunk)

    made: set[Path] = set()
    async with asyncio.TaskGroup() as tasks:
        for page in obs.list(store, prefix=prefix, chunk_size=1000):
            for found in page:
                parent = (folder / found["path"]).parent
                if parent not in made:
                    parent.mkdir(parents=True, exist_ok=True)
                    made.add(parent)
                tasks.create_task(one(found["path"], found["size"]))
            await asyncio.sleep(0)


def crt(endpoint: str, bucket: str, prefix: str, folder: Path) -> None:
    """s3transfer's manager over the CRT: what `aws s3 cp` of the second AWS CLI does."""
    import botocore.session
    from s3transfer.crt import (
        BotocoreCRTCredentialsWrapper,
        BotocoreCRTRequestSerializer,
        CRTTransferManager,
        create_s3_crt_client,
    )

    session = botocore.session.get_session()
    options = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    client = _boto3(endpoint)
    credentials = BotocoreCRTCredentialsWrapper(session.get_credentials())
    made = create_s3_crt_client(
        "us-east-1",
        crt_credentials_provider=credentials.to_crt_credentials_provider(),
        target_throughput=float(os.environ.get("CRT_GBPS", "10")) * 1e9 / 8,
        use_ssl=endpoint.startswith("https"),
    )
    watched = _Watched(made)
    with CRTTransferManager(watched, BotocoreCRTRequestSerializer(session, options)) as manager:
        for key in _keys(client, bucket, prefix):
            target = folder / key
            target.parent.mkdir(parents=True, exist_ok=True)
            manager.download(bucket, key, str(target))
    if watched.unsure:
        raise RuntimeError(f"{watched.unsure} downloads had no checksum to compare with")


class _Watched:
    """A CRT client; ``unsure`` counts the downloads of which it says that it compared nothing."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.unsure = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def make_request(self, **asked: Any) -> Any:
        done = asked.pop("on_done")

        def on_done(**told: Any) -> None:
            self.unsure += not told.get("did_validate_checksum")
            done(**told)

        return self._client.make_request(on_done=on_done, **asked)


def boto3(endpoint: str, bucket: str, prefix: str, folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    client = _boto3(endpoint)

    def one(key: str) -> None:
        target = folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, key, str(target))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, _keys(client, bucket, prefix)))


def _boto3(endpoint: str) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    config = Config(max_pool_connections=32, s3={"addressing_style": "path"})
    return Session().client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config)


def _keys(client: Any, bucket: str, prefix: str) -> Any:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (found["Key"] for found in page.get("Contents", ()))


def transfer_manager(endpoint: str, bucket: str, prefix: str, folder: Path) -> None:
    """google-cloud-storage as its documents advise: processes, large blobs in chunks."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from google.cloud.storage import transfer_manager as manager

    client = storage.Client(
        project="bench",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": endpoint},
    )
    source = client.bucket(bucket)
    blobs = list(client.list_blobs(bucket, prefix=prefix))
    large = [blob for blob in blobs if (blob.size or 0) > LARGE]
    small = [blob.name for blob in blobs if (blob.size or 0) <= LARGE]
    for blob in large:
        target = folder / str(blob.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        manager.download_chunks_concurrently(blob, str(target))
    if small:
        done = manager.download_many_to_path(
            source, small, destination_directory=str(folder), raise_exception=True
        )
        if len(done) != len(small):
            raise RuntimeError(f"{len(done)} of {len(small)}")


WAYS = {"obstore": obstore, "crt": crt, "boto3": boto3, "transfer-manager": transfer_manager}

if __name__ == "__main__":
    way, endpoint, bucket, prefix, folder = sys.argv[1:]
    WAYS[way](endpoint, bucket, prefix, Path(folder))
