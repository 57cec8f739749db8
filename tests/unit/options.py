"""Options of questions, of the kinds that there are: sentences, words, yes and no, replies."""

OPTIONS = (
    ("A", "The speaker yawns while speaking."),
    ("B", "The speaker sighs while speaking."),
    ("C", "The speaker laughs while speaking."),
    ("D", "The speaker coughs while speaking."),
)
YES_NO = (("A", "Yes"), ("B", "No"))
SEX = (("A", "Male"), ("B", "Female"))
SOUNDS = (("A", "Rain"), ("B", "A dog barking"), ("C", "An alarm clock"))
FEELINGS = (("A", "Angry"), ("B", "Happy"), ("C", "Sad"), ("D", "Fearful"))
COUNTS = (("A", "Two."), ("B", "A crowd."), ("C", "One."))
REPLIES = (
    ("A", "Calm down, there is no need to cry."),
    ("B", "You should see a doctor about that cough."),
    ("C", "Who is shouting there behind you?"),
    ("D", "Well done. Shall we unpack together?"),
)
PACE = (("A", "Fast"), ("B", "Normal"), ("C", "Slow"))
CLEAR = (("A", "Clear"), ("B", "Hoarse"), ("C", "Whispering"))
