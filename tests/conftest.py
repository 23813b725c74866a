"""Settings for every test: hypothesis without deadlines (compilation counts as run time) and with repeatable draws."""

from hypothesis import settings

from models.kernel import compiled

settings.register_profile("dstlab", deadline=None, derandomize=True, max_examples=100 if compiled() else 30)
settings.load_profile("dstlab")
