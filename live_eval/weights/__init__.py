"""Weights of judges: find, hash and record them; `live_eval.weights.fetching` downloads them."""

from live_eval.weights.files import (
    FOLDER_VARIABLE,
    HUB,
    RECORD_FILE,
    FoundWeights,
    WeightsFile,
    WeightsSpec,
    add_weights,
    chosen_weights,
    file_sha256,
    find_weights,
    hub_files,
    recorded_hashes,
    recorded_weights,
    weights_at,
    weights_folder,
    write_record,
)
from live_eval.weights.packaged import package_folder, packaged_file

__all__ = [
    "FOLDER_VARIABLE",
    "HUB",
    "RECORD_FILE",
    "FoundWeights",
    "WeightsFile",
    "WeightsSpec",
    "add_weights",
    "chosen_weights",
    "file_sha256",
    "find_weights",
    "hub_files",
    "package_folder",
    "packaged_file",
    "recorded_hashes",
    "recorded_weights",
    "weights_at",
    "weights_folder",
    "write_record",
]
