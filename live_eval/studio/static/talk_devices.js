// Choose the microphone and the loudspeaker, and check the level of the microphone.
import { Sound } from "./stage_sound.js";
import { openMicrophone } from "./talk_connection.js";
import { meter } from "./talk_conversation.js";
import { button, choice, fill, make, problem } from "./web/elements.js";
import { number } from "./web/format.js";

const CHECK_MS = 4_000;
const SILENT_DB = -60;
const QUIET_DB = -30;
const CLIPPED_DB = -1;

/** Assess a peak level in dBFS in one sentence. */
export function levelInWords(peak) {
  const level = `The peak was ${number(peak)} dBFS:`;
  if (peak < SILENT_DB) return `${level} the microphone is silent. Unmute it, or choose another one.`;
  if (peak < QUIET_DB) return `${level} the voice is quiet. Move closer, or raise the gain.`;
  if (peak > CLIPPED_DB) return `${level} the voice is distorted. Move away, or lower the gain.`;
  return `${level} the level is good.`;
}

export class DeviceChoice {
  constructor() {
    this.microphone = this.loudspeaker = ""; // empty for the browser's default devices
    this.changed = null; // during a conversation: function of the changed key
    this.level = meter("Microphone");
    this.result = make("p", { class: "note", role: "status" }, "Speak for 4 s to check the level.");
    this.places = { audioinput: make("div"), audiooutput: make("div") };
    this.element = make(
      "details",
      { toggle: (event) => event.target.open && this.list() },
      make("summary", {}, "Microphone and loudspeaker"),
      make("div", { class: "talk-devices" }, Object.values(this.places)),
      this.level.element,
      make("p", {}, button("Check the microphone", () => this.check())),
      this.result,
    );
  }

  /** List the devices. Browsers reveal their names once the microphone is allowed. */
  async list() {
    const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
    const offer = (kind, label, key) => {
      const named = devices.filter((device) => device.kind === kind && device.deviceId && device.label);
      const options = [["", "the browser's default"], ...named.map((each) => [each.deviceId, each.label])];
      fill(
        this.places[kind],
        choice(label, key, options, this[key], (chosen) => {
          this[key] = chosen;
          this.changed?.(key);
        }),
      );
    };
    offer("audioinput", "Microphone", "microphone");
    offer("audiooutput", "Loudspeaker", "loudspeaker");
  }

  async check() {
    this.stop();
    let peak = 0;
    const decibels = (each) => Math.max(-90, 20 * Math.log10(each + 1e-9));
    try {
      const stream = await openMicrophone(this.microphone);
      await this.list();
      const sound = new Sound(({ peaks: [now] }) => {
        peak = Math.max(peak, now);
        this.level.set(decibels(now));
      });
      this.checking = { stream, sound };
      this.result.textContent = "Speak now …";
      await sound.listen([stream]);
      this.checking.timer = setTimeout(() => {
        this.stop();
        this.result.textContent = levelInWords(decibels(peak));
      }, CHECK_MS);
    } catch (error) {
      fill(this.result, problem(error));
    }
  }

  /** Cancel the check in progress. */
  stop() {
    if (!this.checking) return;
    const { stream, sound, timer } = this.checking;
    clearTimeout(timer);
    for (const track of stream.getTracks()) track.stop();
    sound.close();
    this.level.set(SILENT_DB);
    this.checking = null;
  }
}
