"""The web view: what the terminal views tell, as pages that follow the cluster.

    informers ─▶ mirror.py ─▶ picture.py (an engine that is asked) ─▶ pages ─▶ streams.py (what has changed) ─▶ browsers

Two homes, one application (`application.py`): `tutti ui` on one's own machine, with one's own kubeconfig, and a process
beside the operator, behind TokenReview and SubjectAccessReview (`access.py`). Both only read. A page is made of the
same models that `-o json` writes; the browser draws and computes nothing.
"""
