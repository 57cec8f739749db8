"""Checkpoints with the published shapes and random values (fixed seed), instead of downloaded weights.

The settings of emotion2vec are named as funasr reads them. Its default sizes are those of data2vec 2.0 large,
which fit the 300 million parameters that the authors of emotion2vec+ large state.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from live_eval.judges.networks._emotion2vec import network_class

__all__ = ["EMOTION_TOKENS", "emotion2vec_folder", "utmos_checkpoint"]

EMOTION_TOKENS = (
    "生气/angry",
    "厌恶/disgusted",
    "恐惧/fearful",
    "开心/happy",
    "中立/neutral",
    "其他/other",
    "难过/sad",
    "吃惊/surprised",
    "<unk>",
)

_CONFIG = """\
model: Emotion2vec
model_conf:
    loss_beta: 0.0
    loss_scale: null
    depth: {depth}
    start_drop_path_rate: 0.0
    end_drop_path_rate: 0.0
    num_heads: {heads}
    norm_eps: 1e-05
    norm_affine: true
    encoder_dropout: 0.1
    post_mlp_drop: 0.1
    attention_dropout: 0.1
    activation_dropout: 0.0
    dropout_input: 0.0
    layerdrop: 0.05
    embed_dim: {width}
    mlp_ratio: 4.0
    layer_norm_first: {layer_norm_first}
    average_top_k_layers: {depth}
    end_of_block_targets: false
    clone_batch: 8
    normalize: true
    modalities:
        audio:
            type: AUDIO
            prenet_depth: {prenet_depth}
            prenet_layerdrop: 0.05
            prenet_dropout: 0.1
            start_drop_path_rate: 0.0
            end_drop_path_rate: 0.0
            num_extra_tokens: 10
            init_extra_token_zero: true
            local_grad_mult: 1.0
            use_alibi_encoder: true
            alibi_scale: 1.0
            learned_alibi: false
            alibi_max_pos: null
            learned_alibi_scale: true
            learned_alibi_scale_per_head: true
            learned_alibi_scale_per_layer: {scale_per_layer}
            num_alibi_heads: {heads}
            model_depth: {depth}
            extractor_mode: layer_norm
            feature_encoder_spec: '[({channels}, 10, 5)] + [({channels}, 3, 2)] * 4 + [({channels},2,2)] * 2'
            conv_pos_width: 95
            conv_pos_groups: 16
            conv_pos_depth: 5
            conv_pos_pre_ln: {conv_pos_pre_ln}
            decoder:
                input_dropout: 0.1
                decoder_dim: 384
                decoder_groups: 16
                decoder_kernel: 7
                decoder_layers: 4
                decoder_residual: true
                projection_layers: 1
                projection_ratio: 2.0
                add_positions_all: false
                add_positions_masked: false
tokenizer: CharTokenizer
tokenizer_conf:
    unk_symbol: <unk>
    split_with_space: true
scope_map:
    - 'd2v_model.'
    - none
"""

_CONFIGURATION = {
    "framework": "pytorch",
    "task": "emotion-recognition",
    "model": {"type": "funasr"},
    "file_path_metas": {
        "init_param": "model.pt",
        "tokenizer_conf": {"token_list": "tokens.txt"},
        "config": "config.yaml",
    },
}


def utmos_checkpoint(path: Path, seed: int = 0, spread: float = 20.0) -> Path:
    """Write a state dict of UTMOS22 strong.

    Args:
        path: The file to write.
        seed: Seed of the values.
        spread: Gain of the last layer, so that ratings of different recordings differ.
    """
    import torch
    from utmos_pytorch.utmos_torch import UTMOSModel

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            # torch's older weight norm, which the package uses, is deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            state = UTMOSModel().state_dict()
    state["output_layers.1.net.3.weight"] *= spread
    torch.save(state, path)
    return path


def emotion2vec_folder(
    folder: Path,
    *,
    width: int = 1024,
    depth: int = 16,
    prenet_depth: int = 8,
    heads: int = 16,
    channels: int = 512,
    seed: int = 0,
    spread: float = 10.0,
    prefix: str = "d2v_model.",
    tokens: tuple[str, ...] = EMOTION_TOKENS,
    likely: tuple[str, ...] = (),
    layer_norm_first: bool = False,
    scale_per_layer: bool = False,
    conv_pos_pre_ln: bool = False,
) -> Path:
    """Write a folder as funasr loads it; by default of emotion2vec+ large.

    Args:
        folder: The folder to create.
        width: Width of the transformer.
        depth: Number of its main layers.
        prenet_depth: Number of its first layers.
        heads: Number of attention heads.
        channels: Number of convolution channels.
        seed: Seed of the values.
        spread: By how much the last layer is amplified, so that probabilities of recordings differ.
        prefix: Prefix of the tensor names in the file.
        tokens: The classes.
        likely: Suffixes of the classes that are the most likely for any input.
        layer_norm_first: Whether layers normalise their input.
        scale_per_layer: Whether each layer has its own distance scale.
        conv_pos_pre_ln: Whether the input of the positional convolution is normalised.
    """
    import torch

    make = network_class()
    from omegaconf import OmegaConf

    folder.mkdir(parents=True, exist_ok=True)
    text = _CONFIG.format(
        depth=depth,
        heads=heads,
        width=width,
        channels=channels,
        prenet_depth=prenet_depth,
        layer_norm_first=str(layer_norm_first).lower(),
        scale_per_layer=str(scale_per_layer).lower(),
        conv_pos_pre_ln=str(conv_pos_pre_ln).lower(),
    )
    (folder / "config.yaml").write_text(text, "utf-8")
    (folder / "tokens.txt").write_text("\n".join(tokens), "utf-8")
    (folder / "configuration.json").write_text(json.dumps(_CONFIGURATION), "utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = make(model_conf=OmegaConf.create(text).model_conf, vocab_size=len(tokens))
        scale = network.modality_encoders["AUDIO"].alibi_scale
        scale.data.uniform_(-0.1, 1.5)
        network.modality_encoders["AUDIO"].extra_tokens.data.normal_()
    network.proj.weight.data *= spread
    for number, token in enumerate(tokens):
        network.proj.bias.data[number] = 8.0 if token.endswith(likely or ("\0",)) else 0.0
    # Published checkpoints have no decoder, which is needed only for training.
    state = {
        prefix + name: tensor for name, tensor in network.state_dict().items() if ".decoder." not in name
    }
    torch.save({"model": state}, folder / "model.pt")
    return folder
