"""Random problems, solved and held against the same equations in some hundred bits: what says solved is right."""
