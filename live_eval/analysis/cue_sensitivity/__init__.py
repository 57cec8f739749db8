"""Measure cue sensitivity: whether the reply changes when only the voice changes.

EchoMind contains each script in up to three styles. If each recording is used more than once, two replies to
a script are either to the same recording or to different styles. For an endpoint that uses only the words,
another style is no different from a repetition. Therefore, the distance between replies to different styles
is compared with the distance between replies to the same recording, within each script, without a judge or a
reference.

For a script s, ``δ_s = B_s − W_s``: the mean distance of its replies to different styles minus the mean
distance of its replies to the same recording, among the recordings of one source. The effect is
``mean(δ_s) / mean(D_s)``, where D_s is the mean distance of the script's replies from replies to other
scripts in the same style: 0 if another style changes the reply no more than a repetition, 1 if it changes the
reply as much as different words. Its interval resamples scripts. Its p-value is from a permutation test that
exchanges the styles of replies within each script and source.

See docs/explanation/cue-sensitivity.md for its assumptions and limits.
"""
