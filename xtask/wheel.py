"""Packs the static program as a wheel, for `cargo xtask dist`: wheel.py PROGRAM VERSION PLATFORMS SECONDS SHARE FOLDER.

A wheel is a zip file with the program among its scripts, which pip copies beside Python's own. Manual pages and completions are in the folder SHARE,
and pip copies them below `share` of the same prefix. All files have the date of the commit.
"""

import base64
import hashlib
import pathlib
import sys
import time
import zipfile

program, version, platforms, seconds, share, folder = sys.argv[1:]
root = pathlib.Path(__file__).resolve().parent.parent
name = f"takt_rt_cli-{version}"
tag = f"py3-none-{platforms}"
metadata = f"""Metadata-Version: 2.4
Name: takt-rt-cli
Version: {version}
Summary: The takt command: check, simulate, run and show a real-time schedule
Keywords: real-time,scheduler,scheduling,edf,linux
License-Expression: Apache-2.0 OR MIT
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.7
Description-Content-Type: text/markdown

{(root / "README.md").read_text()}"""
tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms.split("."))
contents = [
    (f"{name}.data/scripts/takt", 0o755, pathlib.Path(program).read_bytes()),
    *(
        (f"{name}.dist-info/licenses/{licence}", 0o644, (root / licence).read_bytes())
        for licence in ("LICENSE-APACHE", "LICENSE-MIT")
    ),
    *(
        (f"{name}.data/data/share/{path.relative_to(share)}", 0o644, path.read_bytes())
        for path in sorted(pathlib.Path(share).rglob("*"))
        if path.is_file()
    ),
    (f"{name}.dist-info/METADATA", 0o644, metadata.encode()),
    (f"{name}.dist-info/WHEEL", 0o644, f"Wheel-Version: 1.0\nGenerator: takt\nRoot-Is-Purelib: false\n{tags}".encode()),
]
record = "".join(
    f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
    for path, _, content in contents
)
contents.append((f"{name}.dist-info/RECORD", 0o644, f"{record}{name}.dist-info/RECORD,,\n".encode()))
with zipfile.ZipFile(pathlib.Path(folder) / f"{name}-{tag}.whl", "w") as wheel:
    for path, mode, content in contents:
        # A zip file has no dates before 1980.
        entry = zipfile.ZipInfo(path, time.gmtime(max(int(seconds), 315532800))[:6])
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(entry, content, compresslevel=9)
