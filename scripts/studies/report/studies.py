"""The pages of the report, by study."""

from studies.report.devices import devices
from studies.report.flsm import flsm
from studies.report.mvcc import mvcc
from studies.report.wbl import wbl

#: Study -> (what draws its page, its line in the table of contents).
STUDIES = {
    "devices": (devices, "[Devices](devices.md): what durability costs on each"),
    "flsm": (flsm, "[Deletes](flsm.md): cemetery, tombstones, RocksDB"),
    "wbl": (wbl, "[Write-behind memtables](wbl.md): YCSB, recovery, bursts"),
    "mvcc": (mvcc, "[Old versions](mvcc.md): undo on a disk and on flash"),
}
