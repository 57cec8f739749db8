// Analyse both voices in the page's audio thread.

export class Sound {
  /**
   * @param {function({peaks: number[], levels: number[], spectra: ?Uint8Array[]})} heard Called every 10 ms, with the
   *     user's values first; with spectra up to 8 kHz (0 to 255) every 20 ms.
   */
  constructor(heard) {
    this.heard = heard;
    this.context = new AudioContext();
    this.sources = [];
  }

  /** Begin. @param {MediaStream[]} streams Streams of the user and of the reply. */
  async listen(streams) {
    const { context } = this;
    await context.audioWorklet.addModule(new URL("./stage_levels.js", import.meta.url));
    if (context.state === "closed") return;
    const levels = new AudioWorkletNode(context, "levels", { numberOfInputs: 2, numberOfOutputs: 0 });
    this.levels = levels;
    streams.forEach((stream, voice) => this.connect(voice, stream));
    levels.port.onmessage = ({ data }) => this.heard(data);
    await context.resume();
  }

  /** Analyse a stream as a voice, in place of an earlier one. */
  connect(voice, stream) {
    if (!this.levels) return; // `listen` connects it
    this.sources[voice]?.disconnect();
    const source = this.context.createMediaStreamSource(stream);
    source.connect(this.levels, 0, voice);
    this.sources[voice] = source;
  }

  close() {
    if (this.context.state !== "closed") this.context.close();
  }
}
