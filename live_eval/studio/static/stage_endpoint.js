// Follow one endpoint on the stage: whose turn it is, its latency and its scores.
import { VoiceToVoice } from "./stage_latency.js";
import { ScoreBadges } from "./stage_scores.js";
import { TurnTaking } from "./stage_voices.js";

export class StageEndpoint {
  /** @param {object} levelRule The studio's rule by which a voice is audible. */
  constructor(levelRule) {
    this.taking = new TurnTaking(levelRule);
    this.latency = new VoiceToVoice();
    this.scores = new ScoreBadges();
  }

  /** The conversation begins. @param {Array<{name: string, missing: ?string}>} judges */
  begin(judges, manual) {
    this.scores.expect(judges);
    this.taking.manual = manual;
  }

  /** Show a message about the endpoint's turns. */
  receive(message) {
    if (message.type === "speech" && message.speaking) this.taking.confirm();
    else if (message.type === "turn") {
      if (message.failure) this.taking.fail();
      this.latency.show(message);
      this.scores.begin(message);
    } else if (message.type === "scores") this.scores.show(message);
  }

  /** The conversation has ended. */
  conclude() {
    this.latency.conclude();
    this.scores.conclude();
  }
}
