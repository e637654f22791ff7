"""What of this house stands on the page of `berth ui`, where there are ClusterQueues: the entry point `berth.pages`."""

from berth_kueue.questions import explain, top
from berth_workbench.questions.table import QuestionPage

KINDS = ("ClusterQueue",)
PAGES = (
    QuestionPage(top.QUESTION, "Cluster", "account_tree", KINDS),
    QuestionPage(explain.QUESTION, "Questions", "hourglass_top", KINDS),
)
