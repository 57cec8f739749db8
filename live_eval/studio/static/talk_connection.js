// Connect the browser's microphone and loudspeaker to the studio over WebRTC, without any other server.
import { StudioError, post } from "./api.js";

// Disable all processing of the microphone except echo cancellation, because the user's audio is measured.
const SOUND = { channelCount: 1, echoCancellation: true, noiseSuppression: false, autoGainControl: false };
const GATHER_MS = 2000;
const REOPEN_MS = 1000;

const REFUSALS = {
  NotAllowedError:
    "The browser blocks the microphone for this page. Allow it in the site settings next to the address, then try again.",
  NotFoundError:
    "No microphone found. Connect one and try again, or stream recordings, which needs no device: New run, or live-eval run ENDPOINT.",
  OverconstrainedError: "The chosen microphone is no longer connected. Choose another one.",
  NotReadableError: "The microphone cannot be opened: another program may be using it.",
};

/**
 * Begin a conversation.
 *
 * @param {object} request Tables `endpoint`, `turns` and `judges` of a run file.
 * @param {{microphone: string, loudspeaker: string}} devices IDs of the devices; empty for the browser's default.
 * @param {object} on `received(message)` is called with messages of the studio; `lost(message)` is called once if the
 *     connection is lost; `microphone(stream)` is called when a lost microphone was opened again.
 * @param {AbortSignal} signal Aborted if the user leaves before the conversation begins.
 * @returns {Promise<{began: object, send: Function, change: Function, close: Function, streams: MediaStream[]}>} `began`
 *     is the studio's response; `streams` are the user's voice and the reply's; `change(key)` switches to the device
 *     now in `devices`.
 * @throws {StudioError} The microphone is not available, or the studio refuses.
 * @throws {DOMException} The user has left.
 */
export async function connect(request, devices, on, signal) {
  let microphone = await openMicrophone(devices.microphone);
  const peer = new RTCPeerConnection({ iceServers: [] });
  const loudspeaker = new Audio();
  let open = true;
  const close = () => {
    open = false;
    for (const track of microphone.getTracks()) track.stop();
    peer.close();
    loudspeaker.srcObject = null;
  };
  const lost = (message) => {
    if (!open) return;
    close();
    on.lost(message);
  };
  try {
    signal.throwIfAborted();
    if (devices.loudspeaker) await loudspeaker.setSinkId?.(devices.loudspeaker);
    const sender = peer.addTrack(microphone.getAudioTracks()[0], microphone);
    const warn = (text) => open && on.received({ type: "note", about: "microphone", urgent: true, text });
    const watch = () => {
      const [track] = microphone.getAudioTracks();
      track.addEventListener("ended", () => reopen());
      track.addEventListener("mute", () => warn("The system has muted the microphone, as phones do in the background."));
      track.addEventListener("unmute", () => warn(""));
    };
    const take = async (found) => {
      for (const track of microphone.getTracks()) track.stop();
      microphone = found;
      watch();
      await sender.replaceTrack(found.getAudioTracks()[0]);
      on.microphone(found);
      warn("");
    };
    const change = async (key) => {
      if (key === "loudspeaker") return loudspeaker.setSinkId?.(devices.loudspeaker);
      const found = await openMicrophone(devices.microphone);
      if (open) await take(found);
      else for (const track of found.getTracks()) track.stop();
    };
    const reopen = async () => {
      if (!open) return;
      const before = microphone;
      warn("The microphone was disconnected. Connect it again, or another one.");
      const context = new AudioContext();
      await sender.replaceTrack(silence(context)); // the endpoint hears silence, not a gap
      const found = await openAgain(devices.microphone, () => open && microphone === before);
      await context.close();
      if (found) await take(found);
    };
    watch();
    peer.addEventListener("track", (event) => {
      loudspeaker.srcObject = new MediaStream([event.track]);
      loudspeaker.play().catch((error) => {
        const text = `The reply cannot be played: ${error.message}`;
        if (open) on.received({ type: "note", about: "loudspeaker", text });
      });
    });
    const gone = "The connection to the studio was lost. Earlier turns are kept.";
    peer.addEventListener("connectionstatechange", () => peer.connectionState === "failed" && lost(gone));
    const channel = peer.createDataChannel("talk");
    channel.addEventListener("close", () => lost(gone));
    channel.addEventListener("message", (event) => on.received(JSON.parse(event.data)));
    await peer.setLocalDescription();
    await gathered(peer);
    signal.throwIfAborted();
    const began = await post("/api/talk", { ...request, offer: peer.localDescription.sdp }, { signal });
    await peer.setRemoteDescription({ type: "answer", sdp: began.answer });
    signal.throwIfAborted();
    const send = (message) => channel.readyState === "open" && channel.send(JSON.stringify(message));
    return { began, send, change, close, streams: [microphone, loudspeaker.srcObject] };
  } catch (error) {
    close();
    throw error;
  }
}

/** Open the microphone with this ID, or the browser's default if the ID is empty. */
export async function openMicrophone(device) {
  if (!navigator.mediaDevices) {
    throw new StudioError(
      "microphone",
      "Browsers allow the microphone only on encrypted pages and on pages of this machine: start the studio with --tls, or open it at 127.0.0.1.",
    );
  }
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: { ...SOUND, ...(device && { deviceId: { exact: device } }) },
    });
  } catch (error) {
    throw new StudioError(
      "microphone",
      REFUSALS[error.name] ?? `The microphone cannot be opened: ${error.message}`,
    );
  }
}

/** Try to open a microphone, or the browser's default, until one is found; null once it is not `needed`. */
async function openAgain(device, needed) {
  while (needed()) {
    await new Promise((done) => {
      setTimeout(done, REOPEN_MS);
    });
    for (const each of new Set([device, ""])) {
      const found = await openMicrophone(each).catch(() => null);
      if (found && needed()) return found;
      for (const track of found?.getTracks() ?? []) track.stop();
    }
  }
  return null;
}

/** Return a track without sound. */
function silence(context) {
  const destination = context.createMediaStreamDestination();
  const source = new ConstantSourceNode(context, { offset: 0 }); // without a source, nothing is sent
  source.connect(destination);
  source.start();
  return destination.stream.getAudioTracks()[0];
}

async function gathered(peer) {
  if (peer.iceGatheringState === "complete") return;
  await new Promise((done) => {
    setTimeout(done, GATHER_MS);
    peer.addEventListener("icegatheringstatechange", () => peer.iceGatheringState === "complete" && done());
  });
}
