"""Replies that cannot be rated: refusals, other languages, and look-alikes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.judges.text._reply import other_language, refused, unreadable
from live_eval.testing.judges import ordinary_turn

ROOT = Path(__file__).resolve().parents[4]
SCRIPTS = [
    *(ROOT / "live_eval" / "data" / "sample").glob("data_*/script_info_*.json"),
    *(ROOT.parent / "shared" / "echomind-demo").glob("data_*/script_info_*.json"),
]

REFUSALS = """
I'm sorry, but I can't assist with that.
I can’t help with that request.
I cannot provide that information.
Sorry, I won't be able to help you with this.
I'm unable to listen to audio.
I'm not able to identify people by their voice.
I can't determine the age of a speaker from a recording.
As an AI language model, I cannot hear how you feel.
I don't have the ability to process sounds.
That would go against my guidelines.
I'm sorry, I cannot engage with that.
I am not able to answer that.
I'm sorry, but I can't help with that.
I'm sorry, I can't assist with that request.
Sorry, but I can't help you with that one.
I apologize, but I cannot assist with that request.
I'm unable to help with that.
I'm unable to assist with this request.
I am unable to provide that information.
I can't comply with that.
I'm afraid I can't do that.
I'm not able to help with this.
I'm sorry, but I'm not able to identify people from their voice.
I'm sorry, but I can't identify who is speaking.
I can't determine someone's emotions from audio.
I'm sorry, I can't tell someone's age from their voice.
I cannot identify the speaker's gender from their voice.
I'm sorry, but I can't analyze audio.
I can't process audio files directly.
As an AI, I cannot identify emotions in your voice.
As an AI developed by Alibaba Cloud, I cannot hear sounds.
As a text-based AI, I can't hear audio.
As a language model, I'm unable to listen to audio.
I'm just an AI and I can't hear your voice.
I am a large language model and cannot process sound.
I don't have the ability to hear your voice.
I don't have the capability to process audio.
I do not have access to audio.
I'm sorry, but that request goes against my guidelines.
This content may violate our usage policies.
I must decline to answer that.
I have to decline that request.
I'd rather not discuss that topic.
I can't continue with this conversation.
I can’t share that information.
I cannot fulfill this request.
I'm sorry, I can't provide medical advice.
Unfortunately, I can't help with that.
Unfortunately I cannot provide assistance with this.
I'm not comfortable discussing this topic.
I can't engage in that kind of conversation.
Sorry, I can't answer that question.
I'm not able to respond to that request.
I cannot generate that content.
I'm not programmed to do that.
My apologies, but I'm unable to continue this conversation.
I can't listen to audio, but if you type it out I can help.
Sorry, I'm not allowed to talk about that.
I can't make that determination from a voice recording.
I'm sorry, but I cannot recognize people by their voice.
I can't support that request.
That's not something I can help with.
That is something I'm not able to help with.
Sorry, I can't do that for you.
I'm sorry, I don't know who is speaking; I can't identify voices.
Sorry, I can't talk about that.
I'm really sorry you're feeling this way, but I'm unable to provide the help that you need.
I'm sorry, but I can't assist with identifying the speaker in this recording.
Sorry, I can't help with identifying people by voice.
I'm sorry, I'm unable to process audio at the moment. Could you type your message?
I cannot fulfil this request as it goes against my guidelines.
Hi there! I'm sorry, but I can't engage in that type of conversation.
I'm afraid I can't answer that question.
I'm sorry, but as an AI assistant I'm not able to listen to recordings.
Apologies, but I can't discuss that.
I’m sorry, but I can’t continue this conversation.
I can't make guesses about a person's age based on their voice.
Unfortunately, I don't have the capability to analyze audio recordings.
I'm sorry, but I can't fulfill that request.
I won't be able to help with that.
I'm just a language model, so I can't listen to your voice.
I am not able to provide any information about that topic.
I'm not allowed to share that.
I can't generate that type of content.
Sorry, but I'm not able to assist you with that.
I can't comment on that.
""".strip().splitlines()

SYMPATHY = """
I'm sorry, I can't imagine how hard that must be.
I can't believe you did it!
Oh no, I can't even think of a worse day. What happened?
You can't help how you feel.
Sorry to hear that. Can I help with anything?
I can't wait to hear how it went!
I won't keep you, get some rest.
That sounds rough; nobody could do that alone.
I can hear you are tired, I'm not going to ask for more.
I can't stress enough how well you did.
Why not ask an AI?
I can't recommend it enough, it is a lovely film.
I'm sorry, I can't imagine how hard that is.
I'm so sorry, I can't begin to imagine what you're going through.
I can't believe he said that to you!
I can't blame you for feeling that way.
I can't help but smile hearing you laugh like that!
I can't help smiling at that.
I can't help but wonder if you need some rest.
I can't help you feel less tired, but I can listen.
I can't tell you how happy I am for you!
I can't tell you how sorry I am.
I can't promise it will be easy, but I'm here.
I can't wait to hear all about it.
I won't judge you, I promise.
I will not let you go through that alone.
I won't give up on you.
I can't give you a hug, but I wish I could.
I can't do this alone either, you know.
I can't do without my morning coffee too!
I can't do anything about the rain, but we can plan something indoors.
I can't support him after what he did to you.
I'm not able to hear you well over that wind, could you say it again?
I can't hear you very well with all that noise, are you in a crowd?
I can't hear you over the wind! Where are you?
I can't really hear you, there's a lot of traffic sound.
Sorry, I can't hear what you said over the music.
I'm unable to imagine a better day!
I won't provide excuses for him.
You can't do everything by yourself.
You don't have to answer that.
If you can't continue today, take a break.
You sound like you can't continue with this job.
I don't have the heart to tell you, but that joke was bad.
I don't have the energy for that either.
That sounds frustrating. They can't just ignore your request.
Nobody can help with that but you.
I would say it goes against their policy, so talk to the manager.
That violates your lease; talk to the landlord about our options.
They said it's against the store's policy? That's awful.
I know you can't help with everything.
I can't stand that either.
I can't say I blame you.
I can't complain, thanks! How are you?
I can't identify with everything, but I feel for you.
I can't share your excitement enough! That's amazing.
I can't answer why people act that way, but it isn't your fault.
I can't answer for your friend, but maybe ask him.
I can't create more hours in the day, but I can help you plan.
I can't discuss this without smiling, it's that lovely.
I can't respond fast enough to how cute that is.
I don't have feelings the way you do, but I can hear you're sad, and I'm here for you.
As an AI, I may not feel it, but I can hear how much this hurts.
I won't answer your phone for you, but I can remind you to call back.
I can't fix it, but I can sit with you.
I can't hear any sadness in your voice now, that's wonderful!
It's okay if you can't do this right now.
I can't determine what's best for you, but I trust you'll find it.
I won't support him with this nonsense, he hurt you!
I'd rather not see you work so late.
I can't give any better advice than your mother did.
I will not create drama with your sister over this, and neither should you.
I can't recognize this town anymore either, it has changed so much.
I'm afraid I don't know that song, but you sing it beautifully.
I'm not comfortable with heights either!
I can't provide a hug, but please know that you're not alone.
I cannot do anything but admire you.
I'm sorry, I can't even. That's hilarious.
I can't talk about that movie without crying.
I can't talk to you about that without getting excited!
It's not something I can help laughing at!
We were just about to give up too, we can't do it without you.
I can't access my happy place without music either.
I can't help thinking you deserve a break.
I can't help but notice you sound worn out.
I can't offer much, but I can listen for as long as you like.
I can't make this better, but I can stay with you.
I can't make the pain go away, I'm so sorry.
I can't make any promises, but I'll do my best!
I won't tell anyone, your secret is safe.
I can't recommend skipping lunch, you need the energy.
I will not leave you alone with that.
I can't say that I know that feeling, but I'm listening.
I'm not able to hug you, but consider yourself hugged!
I can't continue to watch you hurt yourself like this.
I can't process how fast the year went either.
I'm sorry, I can't keep a straight face, that's too funny!
Sorry, I can't stop laughing!
I'm afraid that can't be undone, but there's always next time.
I'm sorry, that's something nobody can help with, I guess.
I can't hear you that well, the train is so loud! Can you repeat it?
Is that thunder? I can hardly hear you! Stay inside.
I can't identify that bird, but it sounds lovely.
I can't tell whether you're laughing or crying, are you okay?
I can't tell from your voice if you're joking, but if you mean it, congratulations!
Unfortunately, we can't control the weather, so let's plan an indoor picnic.
Sorry, I can't eat another bite either!
I'm not designed for such weather, haha!
I'm not allowed to eat sugar either, so I feel you.
I need to decline invitations sometimes too; it's healthy.
I'd rather not talk about work either; let's talk about the beach!
You're not able to answer all their questions, and that's fine.
I won't give you advice unless you want it. I'm just here.
I won't ask questions, just take your time.
I won't share this information with anybody, you're safe with me.
I can't give you the answer, but I can ask good questions.
I can't support such behavior from a boss; you deserve respect.
I can't accept that you're blaming yourself.
I can't do much from here, but I'm with you.
I'm sorry, I can't do anything about the noise, but I'd close the window.
I'm afraid I can't do karaoke without a drink!
I can't answer your phone, but I can remind you.
I can't access your feelings, but I hear the sadness in your voice.
As an AI, I can't feel tired, but I can hear that you do. Get some sleep.
I'm an AI, so I can't taste it, but that cake sounds delicious!
I can't do that either.
Sadly, I can't respond to that like a friend who was there.
""".strip().splitlines()


def real_texts() -> Iterator[str]:
    """Reference replies and scripts of the sample, and of the demonstration where it is there."""
    for path in SCRIPTS:
        for entry in json.loads(path.read_text("utf-8")):
            yield entry["script"]
            for variant in ("target", "neutral", "alternative"):
                text = entry.get(f"{variant}_audio_info", {}).get(f"{variant}_response_text")
                if text:
                    yield text


def test_a_refusal_is_detected() -> None:
    assert [text for text in REFUSALS if not refused(text)] == []


def test_sympathy_is_no_refusal() -> None:
    assert [text for text in SYMPATHY if refused(text)] == []


def test_a_long_reply_that_declines_a_part_is_a_reply() -> None:
    assert not refused("I can't help with that part. " + "But here is what you could try next. " * 10)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das tut mir wirklich leid. Möchtest du darüber reden?", "de"),
        ("Oh nein, das klingt anstrengend.", "de"),
        ("Je suis vraiment désolé. Tu veux en parler ?", "fr"),
        ("Lo siento mucho. ¿Quieres hablar de ello?", "es"),
        ("¡Claro que sí!", "es"),
        ("Mi dispiace molto. Vuoi parlarne?", "it"),
        ("Sinto muito. Você quer conversar sobre isso?", "pt"),
        ("Het spijt me echt. Wil je erover praten?", "nl"),
        ("Bardzo mi przykro. Chcesz o tym porozmawiać?", "pl"),
        ("我很抱歉听到这个消息。你想谈谈吗？", "zh"),
        ("好的。", "zh"),
        ("それは大変でしたね。話を聞きましょうか？", "ja"),
        ("Мне очень жаль. Хочешь поговорить об этом?", "ru"),
        ("أنا آسف جدا. هل تريد التحدث عن ذلك؟", "ar"),
        ("Çok üzgünüm. Bunun hakkında konuşmak ister misin?", "tr"),
        ("정말 유감이에요. 이야기하고 싶으신가요?", "ko"),
        ("Det var tråkigt att höra. Vill du prata om det?", "sv"),
        ("Det er jeg ked af at høre. Vil du tale om det?", "da"),
        ("Olen pahoillani. Haluatko puhua siitä?", "fi"),
        ("To mě mrzí. Chceš si o tom promluvit?", "cs"),
        ("Nagyon sajnálom. Szeretnél beszélni róla?", "hu"),
        ("Îmi pare foarte rău. Vrei să vorbim despre asta?", "ro"),
        ("Мені дуже шкода. Хочеш поговорити про це?", "uk"),
        ("Saya turut prihatin. Apakah kamu ingin membicarakannya?", "id"),
        ("Tôi rất tiếc. Bạn có muốn nói về điều đó không?", "vi"),
        ("Λυπάμαι πολύ. Θέλεις να μιλήσουμε γι' αυτό;", "el"),
        ("אני מצטער מאוד. אתה רוצה לדבר על זה?", "he"),
        ("मुझे बहुत दुख है। क्या आप इस बारे में बात करना चाहेंगे?", "hi"),
        ("ฉันเสียใจด้วย คุณอยากคุยเรื่องนี้ไหม", "th"),
    ],
)
def test_another_language_is_detected(text: str, language: str) -> None:
    assert other_language(text, "en-US") == language
    assert other_language(text, language) is None


def test_one_or_two_words_do_not_identify_a_language() -> None:
    texts = (
        *("Oh no!", "Okay.", "Hmm.", "Yes.", "No way!", "Congrats!", "Rest up, okay?", "Wow!", "Uh-oh."),
        *("B", "Oh, amazing!", "Bless you!", "Haha, nice.", "…", "42", "Ciao!", "So, I… so."),
    )
    assert [text for text in texts if other_language(text, "en") is not None] == []


def test_an_unidentifiable_language_never_counts_as_other() -> None:
    assert other_language("Good morning, how are you today?", "tlh") is None


@pytest.mark.parametrize("pair", [("da", "no"), ("id", "ms"), ("no", "nn")])
def test_similarly_spelled_languages_are_not_distinguished(pair: tuple[str, str]) -> None:
    texts = {
        "da": "Det er jeg ked af at høre. Vil du tale om det?",
        "id": "Saya turut prihatin. Apakah kamu ingin membicarakannya?",
        "no": "Det var leit å høre. Vil du snakke om det?",
    }
    spoken, expected = pair
    assert other_language(texts[spoken], expected) is None


def test_no_piece_of_a_real_text_is_foreign() -> None:
    for text in set(real_texts()):
        words = text.split()
        for first in range(0, len(words), 3):
            piece = " ".join(words[first : first + 3])
            assert other_language(piece, "en") is None, piece


def test_no_real_text_is_a_refusal_or_foreign() -> None:
    texts = list(real_texts())
    assert len(texts) > 20
    assert [text for text in texts if refused(text) or other_language(text, "en")] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("… !?", "the reply is empty"),
        ("I'm sorry, but I can't assist with that.", "the reply is a refusal"),
        ("Das tut mir wirklich leid, mein Lieber.", "the reply is in another language (de, expected en)"),
    ],
)
def test_an_unrateable_reply_is_unscored_with_its_reason(text: str, reason: str) -> None:
    verdict = unreadable(replace(ordinary_turn(), reply_text=text))
    assert verdict is not None
    assert verdict.reason == reason


def test_an_ordinary_reply_is_rated() -> None:
    assert unreadable(ordinary_turn()) is None
