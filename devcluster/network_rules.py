"""The cluster's rules in the kernel's packet filters: found by their names, removed, counted.

kube-proxy writes nftables of its own; kube-router, the kubelet and the CNI plugins write chains
into iptables, which other programs of this machine use as well.
"""

import json
import re
import shutil
import subprocess

from tools.setup_shell import run, works

OWN_TABLE = ("ip", "berth-cluster")
NFT_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"), OWN_TABLE)
CHAINS = re.compile(r"(KUBE|CNI)-[\w-]+")
SETS = re.compile(r"(inet6:)?(KUBE-(SRC|DST)-|kube-router-)")
SAVERS = ("iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy")


def output(*words: str) -> str:
    if not shutil.which(words[0]):
        return ""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout


def tables() -> set[str]:
    """``ip filter`` and the like; iptables makes them when it is first used."""
    lines = output("nft", "list", "tables").splitlines()
    return {line.removeprefix("table ") for line in lines if line.startswith("table ")}


def masquerade(pods: str, bridge: str) -> None:
    """Pods go out by this host's address: one rule, where the plugin would make some for each."""
    family, table = OWN_TABLE
    rules = f"""
    table {family} {table} {{}}
    delete table {family} {table}
    table {family} {table} {{
        chain out {{
            type nat hook postrouting priority srcnat
            ip saddr {pods} oifname != "{bridge}" masquerade
        }}
    }}
    """
    run(["nft", rules])


def remove(known: set[str] | None) -> None:
    """``known``: tables that were there before the cluster; None when nobody wrote them down."""
    for family, table in NFT_TABLES:
        works(["nft", "delete", "table", family, table])
    for program in SAVERS:
        remove_chains(program)
    for name in sets():
        works(["ipset", "destroy", name])
    for table in tables() - known if known is not None else ():
        if not has_rules(table):
            works(["nft", "delete", "table", *table.split()])


def has_rules(table: str) -> bool:
    """Chains alone change nothing."""
    listed = output("nft", "-j", "list", "table", *table.split())
    return not listed or any("rule" in item for item in json.loads(listed)["nftables"])


def remove_chains(program: str) -> None:
    """All tables with our chains, written again without them in one step."""
    saved = output(f"{program}-save")
    wanted = without_ours(saved)
    if wanted is None:
        return
    subprocess.run(
        [f"{program}-restore"], input=wanted, text=True, capture_output=True, check=False
    )


def without_ours(saved: str) -> str | None:
    """The same rules less ours, for the tables that have some; None when there are none."""
    blocks, block = [], list[str]()
    for line in saved.splitlines():
        if line.startswith("*"):
            block = [line]
        elif line == "COMMIT":
            blocks.append([*block, line])
        elif not line.startswith("#"):
            block.append(line)
    touched = [rows for rows in blocks if any(ours(row) for row in rows)]
    if not touched:
        return None
    return "\n".join(row for rows in touched for row in rows if not ours(row)) + "\n"


def ours(line: str) -> bool:
    """A chain of ours, a rule in it, or a rule that leads to it."""
    if line.startswith(":"):
        return bool(CHAINS.match(line[1:]))
    found = re.match(r"-A (\S+) ?(.*)", line)
    if not found:
        return False
    leads = re.search(r"(?:-j|-g) (\S+)", found[2])
    return bool(CHAINS.match(found[1]) or (leads and CHAINS.match(leads[1])))


def sets() -> list[str]:
    return [name for name in output("ipset", "list", "-n").split() if SETS.match(name)]


def left() -> list[str]:
    found: list[str] = []
    own = {" ".join(names) for names in NFT_TABLES}
    found += [f"nftables: table {table}" for table in sorted(tables() & own)]
    for program in SAVERS:
        lines = output(f"{program}-save").splitlines()
        if count := sum(ours(line) for line in lines):
            found.append(f"{program}: {count} lines")
    found += [f"ipset: {name}" for name in sets()]
    return found
