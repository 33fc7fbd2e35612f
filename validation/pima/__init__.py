"""The main job, ``make report``: Pima by TAP, held against NUTS on the same posterior."""
