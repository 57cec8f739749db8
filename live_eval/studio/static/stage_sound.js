// Analyse both voices in the page: levels every 10 ms from the audio thread, and spectra.

const SPECTRUM_HZ = 8000;
const SPECTRUM_SIZE = 1024;

export class Sound {
  /** @param {function({peaks: number[], levels: number[]})} heard Called every 10 ms, with the user's values first. */
  constructor(heard) {
    this.heard = heard;
    this.context = new AudioContext();
    this.sources = [];
    this.analysers = [];
  }

  /** Begin. @param {MediaStream[]} streams Streams of the user and of the reply. */
  async listen(streams) {
    const { context } = this;
    await context.audioWorklet.addModule(new URL("./stage_levels.js", import.meta.url));
    if (context.state === "closed") return;
    const levels = new AudioWorkletNode(context, "levels", { numberOfInputs: 2, numberOfOutputs: 0 });
    this.levels = levels;
    streams.forEach((stream, voice) => {
      this.analysers[voice] = new AnalyserNode(context, {
        fftSize: SPECTRUM_SIZE,
        smoothingTimeConstant: 0,
        minDecibels: -90,
        maxDecibels: -25,
      });
      this.connect(voice, stream);
    });
    const bins = Math.ceil((SPECTRUM_HZ * SPECTRUM_SIZE) / context.sampleRate);
    this.bins = new Uint8Array(bins);
    levels.port.onmessage = ({ data }) => this.heard(data);
    await context.resume();
  }

  /** Analyse a stream as a voice, in place of an earlier one. */
  connect(voice, stream) {
    if (!this.levels) return; // `listen` connects it
    this.sources[voice]?.disconnect();
    const source = this.context.createMediaStreamSource(stream);
    source.connect(this.levels, 0, voice);
    source.connect(this.analysers[voice]);
    this.sources[voice] = source;
  }

  /** Return the latest spectrum of a voice up to 8 kHz, 0 to 255; valid until the next call. */
  spectrum(voice) {
    this.analysers[voice].getByteFrequencyData(this.bins);
    return this.bins;
  }

  close() {
    if (this.context.state !== "closed") this.context.close();
  }
}
