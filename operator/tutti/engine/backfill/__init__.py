"""Room and quota that are kept for the head of a queue, and who is let by."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.admission import AdmissionState
from tutti.engine.records.share_debts import ShareDebts


@dataclass(kw_only=True)
class BackfillState(AdmissionState):
    """What reservations for heads need beside that.

    Attributes:
        share_debts: What queues owe that have had more than their part.
    """

    share_debts: ShareDebts = field(default_factory=ShareDebts)
