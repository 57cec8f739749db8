"""Measure cue sensitivity: whether the reply changes when only the voice changes.

EchoMind contains each script in up to three styles. For an endpoint that uses only the words, a recording in
another style is no different from a repetition of the same recording. The distance between replies to
different styles is therefore compared with the distance between replies to the same recording, within each
script. No judge or reference is needed.

For a script s, ``δ_s = B_s − W_s``: the mean distance of its replies to different styles minus the mean
distance of its replies to the same recording, among the recordings of one source. The effect is ``mean(δ_s) /
mean(D_s)``, where D_s is the mean distance of the script's replies from replies to other scripts in the same
style: 0 if a different style changes the reply no more than a repetition does, 1 if it changes the reply as
much as different words do. The interval resamples scripts. The p-value is from a permutation test that
exchanges the styles of replies within each script and source.

docs/explanation/cue-sensitivity.md describes assumptions and limits.
"""
