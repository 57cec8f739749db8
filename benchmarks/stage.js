// Record in a page what its stage shows and when, the levels of both voices, and the studio's messages.
// Times are milliseconds since the Unix epoch; a change on the page has the time of the frame that shows it.
window.stageRows = [];

const add = (row) => window.stageRows.push(row);
const WINDOWS_PER_ROW = 50;

/** Count both voices in windows of 10 ms. Runs in the audio thread, as a string, because it is a module. */
const LEVELS = `
class Levels extends AudioWorkletProcessor {
  constructor() { super(); this.length = sampleRate / 100; this.samples = 0; this.squares = [0, 0]; }
  process(voices) {
    const count = voices.find(([channel]) => channel)?.[0].length ?? 128;
    for (let index = 0; index < count; index += 1) {
      voices.forEach(([channel], voice) => { this.squares[voice] += channel ? channel[index] ** 2 : 0; });
      if ((this.samples += 1) < this.length) continue;
      const levels = this.squares.map((sum) => Math.round(10 * Math.log10(sum / this.length + 1e-9)));
      this.port.postMessage([Date.now(), ...levels]);
      this.samples = 0;
      this.squares = [0, 0];
    }
    return true;
  }
}
registerProcessor("measured-levels", Levels);`;

async function measure(streams) {
  const context = new AudioContext({ sampleRate: 48_000 });
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([LEVELS], { type: "text/javascript" })));
  const node = new AudioWorkletNode(context, "measured-levels", { numberOfInputs: 2, numberOfOutputs: 0 });
  streams.forEach((stream, voice) => context.createMediaStreamSource(stream).connect(node, 0, voice));
  let windows = [];
  node.port.onmessage = ({ data }) => {
    if (windows.push(data) < WINDOWS_PER_ROW) return;
    add({ row: "levels", windows });
    windows = [];
  };
}

const Peer = window.RTCPeerConnection;
window.RTCPeerConnection = class extends Peer {
  addTrack(track, stream) {
    window.stagePeer = this;
    this.addEventListener("track", (event) => measure([stream, new MediaStream([event.track])]));
    return super.addTrack(track, stream);
  }

  createDataChannel(...given) {
    const channel = super.createDataChannel(...given);
    channel.addEventListener("message", ({ data }) => {
      const at = Date.now();
      const message = JSON.parse(data);
      if (message.type !== "levels") add({ row: "message", at, message });
    });
    return channel;
  }
};

/** Return the values on the page by name: states, large figures, and scores. */
function shown() {
  const found = { stage: document.querySelector("[data-stage]")?.dataset.stage };
  for (const figure of document.querySelectorAll(".stage-figure")) {
    const card = figure.closest("[data-endpoint]");
    found[`figure ${card?.dataset.endpoint ?? 0}`] = figure.textContent;
    if (card) found[`card ${card.dataset.endpoint}`] = card.dataset.turn;
  }
  return found;
}

let before = {};
let due = false;
new MutationObserver(() => {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    const now = shown();
    for (const [name, value] of Object.entries(now)) {
      if (before[name] !== value && value !== undefined) add({ row: "shown", at: Date.now(), name, value });
    }
    before = now;
  });
}).observe(document, {
  subtree: true,
  childList: true,
  characterData: true,
  attributeFilter: ["data-stage", "data-turn"],
});

/** Return and forget the rows so far, with the connection's counts. */
window.takeStageRows = async () => {
  const counts = { row: "counts", at: Date.now() };
  for (const each of (await window.stagePeer?.getStats())?.values() ?? []) {
    if (each.type === "inbound-rtp") {
      counts.lost_packets = each.packetsLost;
      counts.concealed_samples = each.concealedSamples - each.silentConcealedSamples;
      counts.received_samples = each.totalSamplesReceived;
    } else if (each.type === "outbound-rtp") counts.sent_packets = each.packetsSent;
  }
  add(counts);
  return window.stageRows.splice(0);
};
