// Report the level of both voices every 10 ms. Runs in the page's audio thread.

const SECOND_PARTS = 100; // blocks per second; see BLOCK_MS

class Levels extends AudioWorkletProcessor {
  constructor() {
    super();
    this.length = Math.round(sampleRate / SECOND_PARTS);
    this.samples = 0;
    this.clear();
  }

  clear() {
    this.peaks = [0, 0];
    this.squares = [0, 0];
  }

  process(voices) {
    const count = voices.find(([channel]) => channel)?.[0].length ?? 128;
    for (let index = 0; index < count; index += 1) {
      voices.forEach(([channel], voice) => {
        const sample = channel ? Math.abs(channel[index]) : 0;
        if (sample > this.peaks[voice]) this.peaks[voice] = sample;
        this.squares[voice] += sample * sample;
      });
      this.samples += 1;
      if (this.samples < this.length) continue;
      const levels = this.squares.map((sum) => 10 * Math.log10(sum / this.length + 1e-9));
      this.port.postMessage({ peaks: this.peaks, levels });
      this.samples = 0;
      this.clear();
    }
    return true;
  }
}

registerProcessor("levels", Levels);
