"""What is trained: a line through points, by steps down its gradient."""


def trained(epochs: int, rate: float) -> float:
    slope = 0.0
    for _epoch in range(epochs):
        slope -= rate * sum((slope * x - 2 * x) * x for x in range(4))
    return slope
