"""The judge that needs no model and no key: rules and a small model that was trained on people's verdicts."""
