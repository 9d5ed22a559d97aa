"""The cycle: order, quota, placement, reserve, permit, bind; and its journal."""
