import torch
from torch_geometric.data import Data

import purigraph as pg
from purigraph.graph import as_pair_graph
from purigraph.purifiers.cut import cut, cut_parts


def test_the_cut_has_the_gradient_of_a_sigmoid_around_the_threshold() -> None:
    weight = torch.tensor([0.0, 0.39, 0.4, 0.41, 1.0], requires_grad=True)
    assert not cut(weight, 0.4).requires_grad
    value = cut(weight, 0.4, straight_through=True)
    assert value.tolist() == cut(weight, 0.4).tolist() == [0, 0, 1, 1, 1]
    (gradient,) = torch.autograd.grad(value.sum(), weight)
    soft = torch.sigmoid((weight.detach() - 0.4) / 0.1)
    torch.testing.assert_close(gradient, soft * (1 - soft) / 0.1)


def test_parts_are_cut_by_the_weight_of_the_whole() -> None:
    presence = torch.tensor([1.0, 0.1, 0.1, 0.0, 1.0], requires_grad=True)
    whole = torch.tensor([0.9, 0.9, 0.2, 0.9, 0.2])
    value = cut_parts(presence * whole, 0.5, presence)
    torch.testing.assert_close(value.detach(), torch.tensor([1.0, 0.1, 0.0, 0.0, 0.0]))
    (gradient,) = torch.autograd.grad(value.sum(), presence)
    assert gradient[3] == 1  # who is absent would be kept
    assert cut_parts(whole, 0.5, None).tolist() == [1, 1, 0, 1, 0]


def test_gpr_gae_with_a_threshold_can_be_attacked_straight_through(trained: pg.GPRGAE, data: Data) -> None:
    graph = as_pair_graph(data)
    hard = trained.with_settings(threshold=0.5)
    soft = hard.variants()["straight-through"]
    assert "straight-through" not in {*trained.variants(), *soft.variants()}
    outgoing = torch.ones(graph.num_pairs)
    presence = outgoing.clone().requires_grad_()
    results = [purifier.purify_parts(data.x, graph, presence).weight for purifier in (hard, soft)]
    assert torch.equal(*results)
    alone, with_others = (torch.autograd.grad(result, presence, outgoing)[0] for result in results)
    assert torch.equal(alone, results[0].detach())  # of each edge on itself only
    assert (with_others != alone).float().mean() > 0.9
    weight = graph.weight.clone().requires_grad_()
    result = soft.purify(data.x, graph.with_weight(weight)).weight
    assert torch.equal(result.detach(), hard.purify(data.x, graph).weight)
    assert (torch.autograd.grad(result.sum(), weight)[0] != 0).any()
