"""Who may do what: tokens, their rights, and the file that keeps them. It knows nothing of HTTP or of the broker.

right        produce, consume, admin; of topics whose names begin with a prefix
token        what is kept of a token, and the text that its holder shows
token_file   the file: its bytes, how it is read and how it is changed
keyring      finds the token that a request shows
"""
