// Report the levels and the spectra of both voices. Runs in the page's audio thread, which never misses a sample, so
// that both are on one time axis although the page is late.

const SECOND_PARTS = 100; // blocks per second; see BLOCK_MS
const SPECTRUM_BLOCKS = 2; // blocks per spectrum
const SPECTRUM_SIZE = 1024;
const SPECTRUM_HZ = 8000;
const QUIET_DB = -85; // 0 in a spectrum
const LOUD_DB = -45; // 255 in a spectrum; speech has few louder lines

/** Computes the spectra of two voices with one complex transform: one voice is the real part, one the imaginary part. */
class Spectra {
  constructor(size) {
    this.size = size;
    this.bins = Math.ceil((SPECTRUM_HZ * size) / sampleRate);
    this.real = new Float64Array(size);
    this.imaginary = new Float64Array(size);
    const turn = (index) => (2 * Math.PI * index) / size;
    const each = (value) => Float64Array.from({ length: size }, (_, index) => value(turn(index)));
    this.window = each((angle) => (0.42 - 0.5 * Math.cos(angle) + 0.08 * Math.cos(2 * angle)) / size); // Blackman
    this.cosine = each(Math.cos);
    this.sine = each(Math.sin);
    const bits = Math.log2(size);
    this.order = Uint16Array.from({ length: size }, (_, index) => {
      let reversed = 0;
      for (let bit = 0; bit < bits; bit += 1) reversed |= ((index >> bit) & 1) << (bits - 1 - bit);
      return reversed;
    });
  }

  /** Return the spectrum of each voice up to 8 kHz, 0 to 255; `start` is the oldest sample in the ring buffers. */
  of([one, other], start) {
    const { size, real, imaginary, window, order } = this;
    for (let index = 0; index < size; index += 1) {
      const at = (start + index) % size;
      real[order[index]] = one[at] * window[index];
      imaginary[order[index]] = other[at] * window[index];
    }
    this.transform();
    const spectra = [new Uint8Array(this.bins), new Uint8Array(this.bins)];
    for (let bin = 0; bin < this.bins; bin += 1) {
      const mirrored = (size - bin) % size;
      const [re, im, reMirrored, imMirrored] = [real[bin], imaginary[bin], real[mirrored], imaginary[mirrored]];
      spectra[0][bin] = level(Math.hypot(re + reMirrored, im - imMirrored) / 2);
      spectra[1][bin] = level(Math.hypot(im + imMirrored, re - reMirrored) / 2);
    }
    return spectra;
  }

  /** Transform in place (Cooley and Tukey 1965), from bit-reversed order. */
  transform() {
    const { size, real, imaginary, cosine, sine } = this;
    for (let half = 1; half < size; half *= 2) {
      const stride = size / (2 * half);
      for (let first = 0; first < size; first += 2 * half) {
        for (let index = 0; index < half; index += 1) {
          const [low, high] = [first + index, first + index + half];
          const [cos, sin] = [cosine[index * stride], -sine[index * stride]];
          const re = real[high] * cos - imaginary[high] * sin;
          const im = real[high] * sin + imaginary[high] * cos;
          real[high] = real[low] - re;
          imaginary[high] = imaginary[low] - im;
          real[low] += re;
          imaginary[low] += im;
        }
      }
    }
  }
}

/** Return a magnitude as a byte. */
function level(magnitude) {
  const share = (20 * Math.log10(magnitude + 1e-9) - QUIET_DB) / (LOUD_DB - QUIET_DB);
  return Math.round(255 * Math.max(0, Math.min(1, share)));
}

class Levels extends AudioWorkletProcessor {
  constructor() {
    super();
    this.length = Math.round(sampleRate / SECOND_PARTS);
    this.spectra = new Spectra(SPECTRUM_SIZE);
    this.recent = [new Float32Array(SPECTRUM_SIZE), new Float32Array(SPECTRUM_SIZE)]; // ring buffers
    this.at = 0; // where the next sample is kept
    this.blocks = 0;
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
        const sample = channel ? channel[index] : 0;
        this.recent[voice][this.at] = sample;
        this.peaks[voice] = Math.max(this.peaks[voice], Math.abs(sample));
        this.squares[voice] += sample * sample;
      });
      this.at = (this.at + 1) % SPECTRUM_SIZE;
      this.samples += 1;
      if (this.samples === this.length) this.report();
    }
    return true;
  }

  /** Report a block; every second one with the spectra of its end. */
  report() {
    const levels = this.squares.map((sum) => 10 * Math.log10(sum / this.length + 1e-9));
    this.blocks += 1;
    const spectra = this.blocks % SPECTRUM_BLOCKS ? null : this.spectra.of(this.recent, this.at);
    this.port.postMessage({ peaks: this.peaks, levels, spectra });
    this.samples = 0;
    this.clear();
  }
}

registerProcessor("levels", Levels);
