"""Why a call has no answer: a code for programs, a sentence that says what is wrong, and one that says what to do."""

from typing import Any, Final

WHAT_TO_DO: Final = {
    "argument": "Correct the arguments as the tool's input schema says, and call again.",
    "refused": "Read the message: it names what the question cannot be answered about. Change that, and ask again.",
    "unreadable": "Check that the API server answers, and that the kubeconfig's user may get, list and watch; "
    "then ask again.",
    "stale": "Do not go by older answers. Ask again when the watch works; the message says what it waits for.",
    "stopped": "Nothing was known when the time was up. Ask again with a larger for_seconds, or a smaller question.",
    "busy": "Other questions are being answered. Wait for one of them to end, or cancel it, and ask again.",
    "gone": "Ask the question again, and read on with the cursors of the new answer.",
    "mistake": "This is a mistake in Berth, of which the server's standard error has the traceback. Please report it.",
}
"""What to do, by the code of a refusal."""


MAX_MESSAGE: Final = 1000
"""A message may quote what was given, which may be anything."""


class CallRefused(Exception):  # noqa: N818 - it says what is the case
    """There is no answer to a call."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…")
        self.code = code

    def document(self) -> dict[str, Any]:
        """Return it for a program."""
        return {"error": {"code": self.code, "message": str(self), "whatToDo": WHAT_TO_DO[self.code]}}
