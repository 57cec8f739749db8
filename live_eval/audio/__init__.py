"""Process audio: PCM with its sample rate, files, wire codecs, Ogg, RTP, speech level."""

from live_eval.audio.audio_files import (
    MAX_RECORDING_S,
    AudioFile,
    encode_wav,
    read_audio,
    recording_s,
    write_flac,
)
from live_eval.audio.pcm import (
    Audio,
    Codec,
    CodecName,
    decode,
    encode,
    float_to_int16,
    frames_of,
    int16_to_float,
    resample,
    resample_int16,
)
from live_eval.audio.resampler import StreamResampler

__all__ = [
    "MAX_RECORDING_S",
    "Audio",
    "AudioFile",
    "Codec",
    "CodecName",
    "StreamResampler",
    "decode",
    "encode",
    "encode_wav",
    "float_to_int16",
    "frames_of",
    "int16_to_float",
    "read_audio",
    "recording_s",
    "resample",
    "resample_int16",
    "write_flac",
]
