"""What executors are told of the driver's environment."""

from cordwood.spark import session


def test_executors_are_told_what_the_driver_knows_of_a_cloud_and_nothing_else() -> None:
    environment = {"AWS_REGION": "r", "AZURE_STORAGE_KEY": "k", "PATH": "/bin", "MY_AWS_KEY": "x", "AWS_PROFILE": "p"}
    known = {"spark.executorEnv.AWS_PROFILE": "theirs", session.REDACTION: "mine"}
    found = session.for_executors(environment, known)
    hidden = found.pop(session.REDACTION)
    assert found == {"spark.executorEnv.AWS_REGION": "r", "spark.executorEnv.AZURE_STORAGE_KEY": "k"}
    assert hidden.startswith("mine|")
    assert session.for_executors({"PATH": "/bin"}, {}) == {}
