"""The state of a broker, as a fold of its journal."""
