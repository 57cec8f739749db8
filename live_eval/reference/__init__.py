"""The reference endpoint: a real server whose truth is known, for trying, measuring and demonstrating.

One engine without any dialect (`engine`), thin faces that put it into a dialect's words (`openai_face`), a
host that carries both over a connection (`link`, `app`), and the models that listen and answer (`hearing`,
`answering`).
"""
