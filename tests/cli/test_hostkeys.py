"""The file in which the command line keeps the keys of SSH servers."""

from pathlib import Path

from berth_cli.hostkeys import trusting


def test_a_file_of_keys_that_is_no_text_takes_the_key_nevertheless(config_file: Path) -> None:
    kept = config_file.with_name("known_hosts")
    kept.write_bytes(b"\xff\xfe\nother ssh-ed25519 BBBB\n")
    said = trusting({"host": "gate", "port": 22, "host_key": "ssh-ed25519 AAAA comment"})
    assert said[1] == "StrictHostKeyChecking=yes"
    assert kept.read_bytes().splitlines()[1:] == [
        b"other ssh-ed25519 BBBB",
        b"gate ssh-ed25519 AAAA",
    ]
